package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
)

const (
	followEvery = 2 * time.Second
	// Shorter than the web role's own targets: on one machine workers start within
	// seconds, and a person watches.
	localCoolDown = 30 * time.Second
	localBulk     = 2 * time.Minute
)

// scaleTargets are the bounds of stack.Options, as the web role wants them, and targets
// that the environment does not set.
func scaleTargets(o stack.Options) []string {
	targets := []string{fmt.Sprintf("WEBROLE_SCALE_FLOOR=%d", o.Workers), fmt.Sprintf("WEBROLE_SCALE_CEILING=%d", o.MaxWorkers)}
	for name, value := range map[string]time.Duration{"WEBROLE_SCALE_COOL_DOWN": localCoolDown, "WEBROLE_SCALE_BULK": localBulk} {
		if !slices.ContainsFunc(o.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			targets = append(targets, name+"="+value.String())
		}
	}
	return targets
}

// follow keeps as many workers running as the queues want (paper row Q18), until the lab
// closes. While the number is unknown, they stay as they are.
func (b *bench) follow(ctx context.Context) {
	operator, err := journey.New(b.stack.AdminURL(stack.Web))
	if err != nil {
		b.stack.Say("autoscaler: %v", err)
		return
	}
	defer operator.Close()
	for wait(ctx, followEvery) {
		asking, cancel := context.WithTimeout(ctx, 10*time.Second)
		scale, err := operator.Scale(asking)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				b.stack.Say("autoscaler: %v", err)
			}
			continue
		}
		b.approach(ctx, scale)
	}
}

// approach starts workers, one after the other, or tells the last ones to drain.
func (b *bench) approach(ctx context.Context, scale client.Scale) {
	staying := slices.DeleteFunc(b.stack.Workers(), b.isToStay)
	if len(staying) == scale.Wanted {
		return
	}
	b.stack.Say("autoscaler: from %d to %d workers: %s", len(staying), scale.Wanted, scale.Why)
	for range scale.Wanted - len(staying) {
		ended, err := b.start()
		if err != nil { // a user of the board adds one; the next look tells more
			return
		}
		select {
		case o := <-ended:
			if o.err != nil {
				b.stack.Say("autoscaler: %v", o.err)
				return
			}
		case <-ctx.Done():
			return
		}
	}
	for n := len(staying); n > scale.Wanted; n-- {
		if _, err := b.rest(staying[n-1]); err != nil { // is being stopped already
			return
		}
	}
}
