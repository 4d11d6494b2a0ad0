package foreign_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// Our worker does what programs in other languages ask for, and what they send does not expire.
func TestForeignProducers(t *testing.T) {
	t.Parallel()
	installed(t)
	a := azuritetest.Account(t)
	queues := azqtest.Open(t, a, spec)
	signed := a.Queue(queue).URL() + "?" + mayAdd(t, a.Name(queue))
	for _, command := range [][]string{
		{"node", "send.mjs", a.Name(queue), "Ada", "Grace"},
		{"python3", "send.py", "Çelik", "Zoë"},
	} {
		program := exec.Command(command[0], command[1:]...)
		program.Env = append(os.Environ(), "QUEUE_URL="+signed,
			"AZURE_STORAGE_CONNECTION_STRING="+azuritetest.ConnectionString(t))
		if out, err := program.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	waiting, err := queues.Queue(queue).Peek(t.Context(), azq.MaxBatch)
	if err != nil || len(waiting) != 4 {
		t.Fatalf("%d messages, %v; want 4", len(waiting), err)
	}
	for _, m := range waiting {
		if time.Until(m.Expires) < 365*24*time.Hour {
			t.Errorf("%s expires at %v", m.Item.ID, m.Expires)
		}
	}
	var ours azqtest.Recorder
	ours.Next = func(_ context.Context, job *azq.RawJob) error {
		person, err := azq.DecodeData[person](job.Item)
		if err == nil && job.Item.ID != "greet."+person.Name {
			t.Errorf("%s greets %q", job.Item.ID, person.Name)
		}
		return err
	}
	azqtest.Start(t, queues, map[string]azq.Handler{"greet": &ours, "paint": &ours})
	azqtest.WaitEmpty(t, queues.Queue(queue))
	want := []string{"greet.Ada", "greet.Grace", "greet.Zoë", "greet.Çelik"}
	if ids := slices.Sorted(slices.Values(ours.IDs())); !slices.Equal(ids, want) {
		t.Errorf("our worker greeted %q, want %q", ids, want)
	}
}

// mayAdd signs that the bearer may add messages to a queue.
func mayAdd(t *testing.T, queue string) string {
	t.Helper()
	parts := map[string]string{}
	for part := range strings.SplitSeq(azuritetest.ConnectionString(t), ";") {
		name, value, _ := strings.Cut(part, "=")
		parts[name] = value
	}
	key, err := azqueue.NewSharedKeyCredential(parts["AccountName"], parts["AccountKey"])
	if err != nil {
		t.Fatal(err)
	}
	signed, err := sas.QueueSignatureValues{
		Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: time.Now().Add(time.Hour).UTC(),
		Permissions: (&sas.QueuePermissions{Add: true}).String(), QueueName: queue,
	}.SignWithSharedKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signed.Encode()
}

type person struct {
	Name string `json:"name"`
}
