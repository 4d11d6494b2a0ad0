package scenes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/workitem"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// quickRetry repeats soon, because nobody wants to wait in a scene.
var quickRetry = azstorage.Retry{Strategy: azstorage.Exponential, MaxRetries: 4, Delay: 50 * time.Millisecond, MinDelay: 20 * time.Millisecond, MaxDelay: time.Second, TryTimeout: 10 * time.Second}

func isPut(r *http.Request) bool { return r.Method == http.MethodPut }

// corruption changes one bit of an upload on its way, without and with a checksum.
func corruption(ctx context.Context, s *Stage) error {
	frame := []byte("one frame of the film")
	s.Say("One bit of an upload changes on its way. The client sends no checksum, so nobody can tell.")
	url, err := s.Account("stage").SignCreate(Quiet(ctx), "media", "careless", time.Minute)
	if err != nil {
		return err
	}
	road := s.holder("careless") // our own clients always send one
	onTheWay(once(corrupted, 1, isPut))(&road.cfg)
	road.next = road.cfg.Transport
	careless, err := blockblob.NewClientWithNoCredential(url, &blockblob.ClientOptions{ClientOptions: policy.ClientOptions{Transport: road}})
	if err != nil {
		return err
	}
	if _, err := careless.Upload(ctx, streaming.NopCloser(bytes.NewReader(frame)), nil); err != nil {
		return err
	}
	stored, err := blobstore.New(s.Account("reader")).Get(ctx, "media", "careless")
	if err != nil {
		return err
	}
	s.Claim(!bytes.Equal(stored, frame), "the service said 201, and stored %q", stored)

	s.Say("The same accident, and the request carries the MD5 of its body.")
	careful := blobstore.New(s.Account("careful", onTheWay(once(corrupted, 1, isPut))))
	put := func() error {
		_, err := careful.Put(ctx, "media", "careful", frame, blobstore.Options{})
		return err
	}
	err = put()
	s.Claim(errors.Is(err, blobstore.ErrCorrupt), "the service compares, and refuses: 400 Md5Mismatch. Nothing was stored")
	if err := put(); err != nil {
		return err
	}
	stored, err = blobstore.New(s.Account("reader")).Get(ctx, "media", "careful")
	if err != nil {
		return err
	}
	s.Claim(bytes.Equal(stored, frame), "sent again, it is what it was, and the MD5 stays with the blob for its readers")
	return nil
}

func filmOf(a *azstorage.Account) *blockblob.Client {
	return a.Container("media").NewBlockBlobClient("film")
}

// splitUpload sends four blocks, loses the connection after two, and goes on.
func splitUpload(ctx context.Context, s *Stage, film []byte) error {
	const blocks = 4
	part := func(i int) []byte { return film[i*len(film)/blocks : (i+1)*len(film)/blocks] }
	s.Say("A film goes up in %d blocks. After two of them the connection breaks, for good.", blocks)
	sent := 0
	first := filmOf(s.Account("browser", retrying(azstorage.Retry{Strategy: azstorage.NoRetry}), onTheWay(func(*http.Request) outcome {
		if sent++; sent > 2 {
			return broken
		}
		return through
	})))
	ids := []string{"AAAA", "AAAB", "AAAC", "AAAD"} // base64 of one length
	stage := func(film *blockblob.Client, i int) error {
		_, err := film.StageBlock(ctx, ids[i], streaming.NopCloser(bytes.NewReader(part(i))), nil)
		return err
	}
	var failure error
	for i := 0; i < blocks && failure == nil; i++ {
		failure = stage(first, i)
	}
	s.Claim(failure != nil && sent == 3, "the third block did not arrive")

	s.Say("The browser comes back. It asks which blocks are there, and sends the others. Then it commits the list: only now there is a blob.")
	account := s.Account("browser, later")
	again := filmOf(account)
	there, err := again.GetBlockList(ctx, blockblob.BlockListTypeUncommitted, nil)
	if err != nil {
		return err
	}
	held := len(there.UncommittedBlocks)
	s.Claim(held == 2, "the service has kept two blocks, for a week if need be")
	for i := held; i < blocks; i++ {
		if err := stage(again, i); err != nil {
			return err
		}
	}
	if _, err := again.CommitBlockList(ctx, ids, nil); err != nil {
		return err
	}
	stored, err := blobstore.New(account).Get(Quiet(ctx), "media", "film")
	if err != nil {
		return err
	}
	arrived := s.Told(func(e Event) bool { return saying("stage a block of film")(e) && e.Reply == "201" })
	s.Claim(bytes.Equal(stored, film) && arrived == blocks, "the film is whole, and each of its %d blocks arrived once", blocks)
	return nil
}

// lostReplies shows requests that were done and not answered (Q13): a naive repetition
// sees a conflict with itself, and a message is there twice.
func lostReplies(ctx context.Context, s *Stage) error {
	if err := s.Prepare(ctx, plainQueue); err != nil {
		return err
	}
	if err := s.Account("stage").Ensure(Quiet(ctx), nil, nil, []string{"films"}); err != nil {
		return err
	}
	isPost := func(r *http.Request) bool { return r.Method == http.MethodPost }
	s.Say("A client inserts a row. The service does it, and the connection breaks before the answer. The client cannot know, so it asks again, and meets its own row.")
	naive := s.Account("naive", retrying(quickRetry), onTheWay(once(lostReply, 1, isPost)))
	_, err := naive.Table("films").AddEntity(ctx, []byte(`{"PartitionKey":"film","RowKey":"naive"}`), nil)
	s.Claim(azstorage.HasCode(err, azstorage.CodeEntityAlreadyExists), "the naive client is told 409 EntityAlreadyExists, although nobody else was there")

	s.Say("Our tables write a mark into each row. After a repeated request and a conflict they read the row, and look whose mark it is.")
	careful := tablestore.New(s.Account("careful", retrying(quickRetry), onTheWay(once(lostReply, 1, isPost))).Table("films"))
	_, err = careful.Insert(ctx, tablestore.Entity{PartitionKey: "film", RowKey: "careful"})
	s.Claim(err == nil, "the insert succeeded: the row is its own")
	_, err = careful.Insert(ctx, tablestore.Entity{PartitionKey: "film", RowKey: "naive"})
	s.Claim(errors.Is(err, tablestore.ErrExists), "a row of somebody else is still a conflict")

	s.Say("A message is sent, and the answer is lost. Sending again puts it there twice: nothing can prevent that.")
	item, err := workitem.New("film", "", "film 1", nil)
	if err != nil {
		return err
	}
	producer := workqueue.OpenAll(s.Account("producer", retrying(quickRetry), onTheWay(once(lostReply, 1, isPost))), []workqueue.Spec{plainQueue}).Queue(plainQueue.Name)
	if err := producer.Send(ctx, item, 0); err != nil {
		return err
	}
	worker := s.Desk("worker", plainQueue)
	made := map[string]int{}
	for range 2 {
		lease, err := worker.take(ctx)
		if err != nil {
			return err
		}
		if made[id(lease)]++; made[id(lease)] > 1 {
			s.Act("worker", "has made %s already, and does nothing", id(lease))
		}
		if err := lease.Complete(ctx); err != nil {
			return err
		}
	}
	s.Claim(made["film 1"] == 2, "two messages came, with the same id: the worker knew the second")
	s.Means("So an id belongs to the work and not to the message, and a worker looks whether the work is done. A receive is not repeated at all: if its answer is lost, the message is hidden and nobody knows it, and it comes back when its timeout ends.")
	return lostRenewal(ctx, s)
}

// lostRenewal loses the answer to an update, and with it the new receipt.
func lostRenewal(ctx context.Context, s *Stage) error {
	s.Say("The answer to a renewal is lost, and the new receipt with it. The old one is refused, although nobody else has the message.")
	spec := workqueue.Spec{Name: plainQueue.Name, Visibility: time.Minute} // nobody waits for it
	worker := s.Desk("unlucky worker", spec, onTheWay(once(lostReply, 1, func(r *http.Request) bool {
		return isPut(r) && strings.Contains(r.URL.Path, "/messages/")
	})))
	if err := worker.put(Quiet(ctx), "film", "film 2", nil); err != nil {
		return err
	}
	lease, err := worker.take(ctx)
	if err != nil {
		return err
	}
	err = lease.Renew(ctx)
	s.Claim(errors.Is(err, workqueue.ErrReceiptLost), "the lease says that its receipt is lost, and not that somebody else has the message")
	s.Means("Until the deadline nobody can have the message, so the worker may finish. It cannot delete: the message will come once more, and the worker that gets it finds the work done.")
	return silence(ctx, s)
}

// silence lets nobody answer for two tries: each try waits twice as long as the one
// before it.
func silence(ctx context.Context, s *Stage) error {
	retry := quickRetry
	retry.TryTimeout = 300 * time.Millisecond
	s.Say("Sometimes nothing answers at all, and no connection breaks. So each try has a time-out, %v here. If the service is only slow, the same time-out again would fail again: the next try gets twice as long.", retry.TryTimeout)
	const actor = "waiting client"
	var begins []time.Time
	first := once(silent, 2, isPut)
	client := blobstore.New(s.Account(actor, retrying(retry), onTheWay(func(r *http.Request) outcome {
		begins = append(begins, time.Now())
		return first(r)
	})))
	if err := s.Account("stage").Ensure(Quiet(ctx), []string{"media"}, nil, nil); err != nil {
		return err
	}
	if _, err := client.Put(ctx, "media", "late", []byte("film"), blobstore.Options{}); err != nil {
		return err
	}
	if len(begins) != 3 {
		return fmt.Errorf("%d tries, want 3", len(begins))
	}
	// The pauses between the tries are in these, too: 70 to 230 ms at most.
	one, two := begins[1].Sub(begins[0]), begins[2].Sub(begins[1])
	s.Claim(one >= retry.TryTimeout && two >= 2*retry.TryTimeout, "the first try was given up after %.1f s, the second after %.1f s, and the third was answered", one.Seconds(), two.Seconds())
	s.Means("Whether the first two were done is unknown. A blob that is written twice with the same content does no harm.")
	return nil
}
