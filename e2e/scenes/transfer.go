package scenes

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

var (
	_ = register(programs, "corrupted-and-split", corruptedAndSplit)
	_ = register(programs, "lost-replies", lostReplies)
)

// quickRetry repeats soon, so that a scene is short.
var quickRetry = azstore.Retry{Strategy: azstore.Exponential, MaxRetries: 4, Delay: 50 * time.Millisecond, MinDelay: 20 * time.Millisecond, MaxDelay: time.Second, TryTimeout: 10 * time.Second}

// corruptedAndSplit changes one bit of an upload on its way, without and with a checksum
// (Q12), and sends a film in blocks (Q14).
func corruptedAndSplit(s *Stage) {
	s.Ensure([]string{"media"})
	frame := []byte("one frame of the film")
	careless := s.Key("careless", "media", "careless", onTheWay(inject.Once(inject.Corrupt, 1, isPut))) // our own clients always send a checksum
	get(careless.Upload(s.ctx, streaming.NopCloser(bytes.NewReader(frame)), nil))
	stored := get(s.Blobs("reader").Get(s.ctx, "media", "careless"))
	s.Claim(!bytes.Equal(stored, frame), stored)

	careful := s.Blobs("careful", onTheWay(inject.Once(inject.Corrupt, 1, isPut)))
	_, err := careful.Put(s.ctx, "media", "careful", frame, blobstore.Options{})
	s.Claim(errors.Is(err, blobstore.ErrCorrupt))
	get(careful.Put(s.ctx, "media", "careful", frame, blobstore.Options{}))
	s.Claim(bytes.Equal(get(s.Blobs("reader").Get(s.ctx, "media", "careful")), frame))
	splitUpload(s, bytes.Repeat([]byte("frame "), 4000))
}

// splitUpload sends four blocks, loses the connection after two, and goes on.
func splitUpload(s *Stage, film []byte) {
	ids := []string{"AAAA", "AAAB", "AAAC", "AAAD"} // base64 of one length
	blob := func(actor string, options ...Option) *blockblob.Client {
		return s.Account(actor, options...).Container("media").NewBlockBlobClient("film")
	}
	stage := func(to *blockblob.Client, i int) error {
		block := film[i*len(film)/len(ids) : (i+1)*len(film)/len(ids)]
		_, err := to.StageBlock(s.ctx, ids[i], streaming.NopCloser(bytes.NewReader(block)), nil)
		return err
	}
	sent := 0
	first := blob("browser", retrying(azstore.Retry{Strategy: azstore.NoRetry}), onTheWay(func(*http.Request) inject.Fault {
		if sent++; sent > 2 {
			return inject.Reset
		}
		return inject.None
	}))
	must(stage(first, 0))
	must(stage(first, 1))
	s.Claim(stage(first, 2) != nil && sent == 3)

	again := blob("browser, later")
	held := len(get(again.GetBlockList(s.ctx, blockblob.BlockListTypeUncommitted, nil)).UncommittedBlocks)
	s.Claim(held == 2)
	for i := held; i < len(ids); i++ {
		must(stage(again, i))
	}
	get(again.CommitBlockList(s.ctx, ids, nil))
	arrived := s.Told(func(e Event) bool { return strings.HasPrefix(e.Text, "stage a block of film") && e.Reply == "201" })
	stored := get(s.Blobs("reader").Get(Quiet(s.ctx), "media", "film"))
	s.Claim(bytes.Equal(stored, film) && arrived == len(ids), arrived)
}

// lostReplies shows requests that were done and not answered (Q13): a naive repetition
// sees a conflict with itself, and a message is there twice.
func lostReplies(s *Stage) {
	s.Prepare(plainQueue)
	s.Ensure([]string{"media"}, "films")
	losing := func() Option { return onTheWay(inject.Once(inject.LostReply, 1, isPost)) }
	_, err := s.Account("naive", retrying(quickRetry), losing()).Table("films").AddEntity(s.ctx, []byte(`{"PartitionKey":"film","RowKey":"naive"}`), nil)
	s.Claim(azstore.HasCode(err, aztables.EntityAlreadyExists))

	careful := s.Table("careful", "films", retrying(quickRetry), losing())
	_, err = careful.Insert(s.ctx, tablestore.Entity{PartitionKey: "film", RowKey: "careful"})
	s.Claim(err == nil)
	_, err = careful.Insert(s.ctx, tablestore.Entity{PartitionKey: "film", RowKey: "naive"})
	s.Claim(errors.Is(err, tablestore.ErrExists))

	s.Desk("producer", plainQueue, retrying(quickRetry), losing()).put("film", "film 1")
	worker := s.Desk("worker", plainQueue)
	made := map[string]int{}
	for range 2 {
		lease := worker.takeOne()
		if made[id(lease)]++; made[id(lease)] > 1 {
			s.Act("worker", "has made %s already, and does nothing", id(lease))
		}
		worker.delete(lease)
	}
	s.Claim(made["film 1"] == 2)
	lostRenewal(s)
	silence(s)
}

// lostRenewal loses the answer to an update, and with it the new receipt.
func lostRenewal(s *Stage) {
	spec := azq.Spec{Name: plainQueue.Name, Visibility: time.Minute} // the scene does not wait for it
	worker := s.Desk("unlucky worker", spec, onTheWay(inject.Once(inject.LostReply, 1, func(r *http.Request) bool {
		return isPut(r) && strings.Contains(r.URL.Path, "/messages/")
	})))
	worker.quiet().put("film", "film 2")
	err := worker.takeOne().Renew(s.ctx, nil)
	s.Claim(errors.Is(err, azq.ErrReceiptLost))
}

// silence gives no answer to two tries: each try waits twice as long as the one before.
func silence(s *Stage) {
	retry := quickRetry
	retry.TryTimeout = 300 * time.Millisecond
	s.Next(retry.TryTimeout)
	var begins []time.Time
	first := inject.Once(inject.Silence, 2, isPut)
	client := s.Blobs("waiting client", retrying(retry), onTheWay(func(r *http.Request) inject.Fault {
		begins = append(begins, time.Now())
		return first(r)
	}))
	get(client.Put(s.ctx, "media", "late", []byte("film"), blobstore.Options{}))
	if len(begins) != 3 {
		must(fmt.Errorf("%d tries, want 3", len(begins)))
	}
	// The pauses between the tries are in these, too: 70 to 230 ms at most.
	one, two := begins[1].Sub(begins[0]), begins[2].Sub(begins[1])
	s.Claim(one >= retry.TryTimeout && two >= 2*retry.TryTimeout, one.Seconds(), two.Seconds())
}
