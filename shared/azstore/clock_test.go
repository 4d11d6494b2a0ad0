package azstore_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// elsewhen is a service whose clock is ahead.
type elsewhen struct{ ahead time.Duration }

// Do implements azcore's policy.Transporter.
func (e elsewhen) Do(r *http.Request) (*http.Response, error) {
	answer, err := (&inject.Transport{Choose: func(*http.Request) inject.Fault { return inject.None }}).Do(r)
	if err == nil {
		answer.Header.Set("Date", time.Now().Add(e.ahead).UTC().Format(http.TimeFormat))
	}
	return answer, err
}

// Times of the service become times of this machine, however far the clocks are apart (H21).
func TestLocalTime(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 90 * time.Second} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			a := azuritetest.AccountWith(t, func(c *azstore.Config) { c.Transport = elsewhen{ahead} })
			now := time.Now()
			if got := a.LocalTime(now); !got.Equal(now) {
				t.Errorf("before any reply: %v", got.Sub(now))
			}
			if err := a.Ensure(t.Context(), azstore.Names{Queues: []string{"some"}}); err != nil {
				t.Fatal(err)
			}
			if off := a.LocalTime(now.Add(ahead)).Sub(now).Abs(); off > 3*time.Second {
				t.Errorf("a time of the service is %v off", off)
			}
			if got := a.LocalTime(time.Time{}); !got.IsZero() {
				t.Errorf("no time becomes %v", got)
			}
		})
	}
}
