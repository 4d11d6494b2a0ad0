//go:build deploy

package kedascaler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// token protects the web role's routes of operators, as in a cluster.
const token = "0123456789abcdef"

// Trigger is one entry of a ScaledObject's triggers, with the parameters that its
// TriggerAuthentication resolves to.
type Trigger struct {
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata"`
	Auth     map[string]string `json:"auth"`
}

// fill is what one lane of a queue gets before all are compared.
type fill struct {
	queue        string
	lane         int
	visible, hid int
}

var fills = []fill{
	{workflow.Probe, 0, 4, 3},         // some of each
	{workflow.Index, 0, 0, 2},         // only work in progress
	{workflow.EncodeNormal, 0, 31, 1}, // as many as KEDA tells apart
	{workflow.EncodeNormal, 2, 9, 0},  // another lane of the same queue
	{workflow.Purge, 0, 33, 5},        // more than one peek shows
}

var (
	scaler  = flag.String("scaler", "", "the program of deploy/kubernetes/keda, built")
	trigger = flag.String("trigger", "", "the trigger of the chart's ScaledObject, as JSON: type and metadata")
)

// KEDA's numbers are ours: of a stack without workers whose queues are filled.
func TestScalersAgree(t *testing.T) {
	var chart Trigger
	if err := json.Unmarshal([]byte(*trigger), &chart); err != nil {
		t.Fatalf("read the chart's trigger: %v", err)
	}
	s, err := stack.Start(t.Context(), stack.Options{WebEnv: []string{"WEBROLE_TOKEN=" + token, "WEBROLE_SCALE_BULK=1m"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Stop() }()
	if err := agree(t.Context(), s, chart, t.Output()); err != nil {
		t.Error(err)
	}
}

// agree fills the queues and compares. The address of the chart's trigger is replaced by the
// stack's. out gets the numbers.
func agree(ctx context.Context, s *stack.Stack, chart Trigger, out io.Writer) error {
	account, err := azstore.Open(azstore.Config{ConnectionString: s.ConnectionString(), Prefix: s.Getenv("CUTROOM_PREFIX")})
	if err != nil {
		return err
	}
	defer account.CloseIdle()
	queues := azq.Open(account, azq.Options{Queues: workflow.Specs})
	if err := fillAll(ctx, queues); err != nil {
		return err
	}
	ours, err := askScale(ctx, s)
	if err != nil {
		return err
	}
	chart.Metadata["url"] = s.AdminURL(stack.Web) + "/api/v1/ops/scale"
	chart.Auth = map[string]string{"token": token}
	triggers := []Trigger{chart}
	for _, spec := range queues.Specs() {
		for _, strategy := range []string{"all", "visibleonly"} {
			triggers = append(triggers, Trigger{
				Type:     "azure-queue",
				Metadata: map[string]string{"queueName": s.Getenv("CUTROOM_PREFIX") + spec.Name, "queueLengthStrategy": strategy},
				Auth:     map[string]string{"connection": s.ConnectionString()},
			})
		}
	}
	numbers, err := ask(ctx, *scaler, triggers)
	if err != nil {
		return err
	}
	return compare(ours, queues.Specs(), numbers, out)
}

// fillAll sends and receives messages, so that each lane has what its fill says.
func fillAll(ctx context.Context, queues *azq.Client) error {
	for _, f := range fills {
		lane := azq.LaneName(f.queue, f.lane)
		for i := range f.visible + f.hid {
			item := azq.Item{ID: fmt.Sprintf("%s-%d", lane, i), Kind: "probe", Version: 1, Subject: "none"}
			if err := queues.SendItem(ctx, lane, item, 0); err != nil {
				return err
			}
		}
		if f.hid == 0 {
			continue
		}
		if taken, err := queues.Queue(lane).Receive(ctx, f.hid); err != nil || len(taken) != f.hid {
			return fmt.Errorf("receive %d messages of %s: %d, %v", f.hid, lane, len(taken), err)
		}
	}
	return nil
}

func askScale(ctx context.Context, s *stack.Stack) (client.Scale, error) {
	operator := client.WithRequestEditorFn(func(_ context.Context, req *http.Request) error {
		req.Header.Set("Authorization", "Bearer "+token)
		return nil
	})
	api, err := client.NewClientWithResponses(s.AdminURL(stack.Web)+"/api/v1", operator)
	if err != nil {
		return client.Scale{}, fmt.Errorf("ask how many workers are wanted: %w", err)
	}
	answer, err := api.GetScaleWithResponse(ctx)
	if err != nil {
		return client.Scale{}, fmt.Errorf("ask how many workers are wanted: %w", err)
	}
	if answer.JSON200 == nil {
		return client.Scale{}, fmt.Errorf("ask how many workers are wanted: %s", answer.Status())
	}
	return *answer.JSON200, nil
}

// ask hands the triggers to KEDA's scalers and returns their numbers, in order.
func ask(ctx context.Context, scaler string, triggers []Trigger) ([]int, error) {
	var in, said bytes.Buffer
	lines := json.NewEncoder(&in)
	for _, t := range triggers {
		if err := lines.Encode(t); err != nil {
			return nil, fmt.Errorf("write a trigger: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, scaler)
	cmd.Stdin, cmd.Stderr = &in, &said
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ask KEDA's scalers: %w: %s", err, said.String())
	}
	var numbers []int
	for _, field := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("read what KEDA's scalers say: %w", err)
		}
		numbers = append(numbers, n)
	}
	if len(numbers) != len(triggers) {
		return nil, fmt.Errorf("KEDA's scalers answered %d of %d questions", len(numbers), len(triggers))
	}
	return numbers, nil
}

// compare holds KEDA's numbers to ours: first the workers wanted, then two for each lane.
func compare(ours client.Scale, lanes []azq.Spec, numbers []int, out io.Writer) error {
	var wrong []error
	_, _ = fmt.Fprintf(out, "workers wanted: %d, by way of KEDA %d\n", ours.Wanted, numbers[0])
	if ours.Wanted < 2 || numbers[0] != ours.Wanted {
		wrong = append(wrong, fmt.Errorf("workers wanted: KEDA %d, we %d (more than one expected)", numbers[0], ours.Wanted))
	}
	all, visible, few := map[string]int{}, map[string]int{}, map[string]bool{}
	for i, lane := range lanes {
		base := lane.Base()
		all[base] += numbers[1+2*i]
		visible[base] += numbers[2+2*i]
		few[base] = (few[base] || lane.Lane() == 0) && numbers[2+2*i] < azq.MaxBatch
	}
	for _, q := range ours.Queues {
		_, _ = fmt.Fprintf(out, "%-14s visible %3d, hidden %2d; KEDA all %3d, visibleonly %3d\n", q.Name, q.Visible, q.Hidden, all[q.Name], visible[q.Name])
		if q.Visible+q.Hidden != int64(all[q.Name]) {
			wrong = append(wrong, fmt.Errorf("%s: KEDA counts %d messages, we %d", q.Name, all[q.Name], q.Visible+q.Hidden))
		}
		if few[q.Name] && q.Visible != int64(visible[q.Name]) {
			wrong = append(wrong, fmt.Errorf("%s: KEDA counts %d visible messages, we %d", q.Name, visible[q.Name], q.Visible))
		}
	}
	for _, f := range fills { // nothing compared would be nothing shown
		if all[f.queue] < f.visible+f.hid {
			wrong = append(wrong, fmt.Errorf("%s: KEDA counts %d messages of %d", f.queue, all[f.queue], f.visible+f.hid))
		}
	}
	return errors.Join(wrong...)
}
