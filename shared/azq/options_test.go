package azq_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// What would only show as work that is never done is refused at the start, all of it
// at once.
func TestNewRefusesWhatWouldNeverBeConsumed(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	nothing := azq.HandlerFunc(func(context.Context, *azq.RawJob) error { return nil })
	mail := azq.Spec{Name: "mail", Kinds: []string{"welcome"}, Pool: "own", Laned: true}
	for name, c := range map[string]struct {
		spec     azq.Spec
		pools    map[string]int
		handlers map[string]azq.Handler
		want     []string // parts of the error; none: it is accepted
	}{
		"right":                  {mail, map[string]int{"own": 1}, map[string]azq.Handler{"welcome": nothing}, nil},
		"another worker's":       {mail, map[string]int{"own": 0}, nil, nil},
		"no slots":               {mail, map[string]int{}, map[string]azq.Handler{"welcome": nothing}, []string{`queue mail: pool "own" has no slots`, "Options.Pools"}},
		"no handler":             {mail, map[string]int{"own": 1}, nil, []string{`queue mail: kind "welcome" has no handler`}},
		"no kind":                {azq.Spec{Name: "mail", Pool: "own"}, map[string]int{"own": 1}, nil, []string{"queue mail carries no kind", "Spec.Kinds"}},
		"a pool without a queue": {mail, map[string]int{"own": 1, "onw": 1}, map[string]azq.Handler{"welcome": nothing}, []string{`pool "onw"`, "Spec.Pool"}},
		"a kind without a queue": {mail, map[string]int{"own": 0}, map[string]azq.Handler{"welcom": nothing}, []string{`kind "welcom"`, "Spec.Kinds"}},
		"two at once":            {mail, map[string]int{}, map[string]azq.Handler{"welcom": nothing}, []string{`pool "own"`, `kind "welcom"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := azq.Open(account, azq.Options{Queues: []azq.Spec{c.spec}, Pools: c.pools, Handlers: c.handlers}).Check()
			if len(c.want) == 0 && err != nil {
				t.Errorf("refused: %v", err)
			}
			for _, part := range c.want {
				if err == nil || !strings.Contains(err.Error(), part) || strings.Count(err.Error(), part) != 1 {
					t.Errorf("the error does not say %q once: %v", part, err)
				}
			}
		})
	}
}

// Data of another shape than the handler's is poison at once.
func TestDataOfAnotherShapeIsPoison(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	qs := azqtest.Open(t, a, oneQueue(0))
	type order struct{ Number int }
	run(t, qs, azq.HandlerOf(func(_ context.Context, _ *azq.RawJob, o order) error {
		t.Errorf("handled %+v", o)
		return nil
	}))
	azqtest.SendText(t, a, jobs, `{"specversion":"1.0","id":"x","type":"`+typeOf(1)+`","data":{"Number":"seven"}}`)
	if p := poisoned(t, qs, 1)[0]; p.ItemID != "x" || p.Failures != 1 || !strings.Contains(p.Reason, "Number") {
		t.Errorf("poisoned: %+v", p)
	}
}

// Q6: a newer item is put back unread. Its claim check may have a name that this
// worker would refuse.
func TestNewerItemsClaimCheckIsNotLookedAt(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	qs := azqtest.Open(t, a, oneQueue(0))
	c, _ := run(t, qs, &azqtest.Recorder{})
	azqtest.SendText(t, a, jobs, `{"specversion":"1.0","id":"x","type":"`+typeOf(2)+`","subject":"s","dataref":"elsewhere/x"}`)
	c.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.PutBack >= 1 })
	azqtest.WaitPoison(t, qs, 0)
}

// typeOf is the type of a message in some version of its step.
func typeOf(version int) string { return azq.Item{Kind: step, Version: version}.Type() }

// What the service or a reader of messages would refuse is told before anything is sent.
func TestCheckRefusesNamesAndTimes(t *testing.T) {
	t.Parallel()
	client := azq.Open(azuritetest.Account(t), azq.Options{Namespace: "Shop", Lanes: 3, Pools: map[string]int{"default": 0}, Queues: []azq.Spec{
		{Name: "mail", Laned: true}, {Name: "mail-2"}, {Name: "post"}, {Name: "post"}, {Name: "Bad--name"}, {Name: "brief", Visibility: time.Millisecond},
	}})
	err := client.Check()
	for _, want := range []string{`namespace "Shop"`, "queue mail-2 is declared twice", "queue post is declared twice", `queue "Bad--name"`, "queue brief: a visibility of 1ms"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not told in: %v", want, err)
		}
	}
	for _, wrong := range []string{"queue mail ", "queue mail-1 "} {
		if err != nil && strings.Contains(err.Error(), wrong) {
			t.Errorf("%q is told: %v", wrong, err)
		}
	}
}
