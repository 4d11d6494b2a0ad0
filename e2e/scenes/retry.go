package scenes

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

var _ = register(programs, "retries", retries)

// retries lets clients with the paper's three strategies meet a service that is busy
// for a while (T10), and shows the curve and the herd (T11).
func retries(s *Stage) {
	s.Ensure(nil, "films")
	_, _, err := rideOut(s, "none", azstore.Retry{Strategy: azstore.NoRetry})
	s.Claim(azstore.IsUnavailable(err))
	fixed, took, err := rideOut(s, "fixed", azstore.Retry{Strategy: azstore.Fixed, MaxRetries: 20, Delay: 100 * time.Millisecond})
	s.Claim(err == nil, fixed, took.Seconds())
	growing, took, err := rideOut(s, "exponential", azstore.Retry{Strategy: azstore.Exponential, MaxRetries: 8, Delay: 100 * time.Millisecond, MinDelay: 50 * time.Millisecond, MaxDelay: 2 * time.Second})
	s.Claim(err == nil, growing, took.Seconds())
	s.Claim(growing < fixed, growing, fixed)

	_, err = s.Account("client", retrying(quickRetry)).Table("films").AddEntity(s.ctx, []byte(`{"PartitionKey":"film","RowKey":"fixed"}`), nil)
	s.Claim(azstore.IsConflict(err) && s.ToldOf("client") == 1)
	curve(s)
}

// rideOut inserts a row while the service is busy for 1.5 s. It returns the number of
// requests, and how long they took.
func rideOut(s *Stage, strategy string, retry azstore.Retry) (requests int, took time.Duration, err error) {
	began := time.Now()
	client := s.Account(strategy, retrying(retry), onTheWay(func(*http.Request) inject.Fault {
		if time.Since(began) < 1500*time.Millisecond {
			return inject.ServerBusy
		}
		return inject.None
	}))
	_, err = client.Table("films").AddEntity(s.ctx, []byte(`{"PartitionKey":"film","RowKey":"`+strategy+`"}`), nil)
	return s.ToldOf(strategy), time.Since(began), err
}

// curve tells the paper's formula and what its random spread is for.
func curve(s *Stage) {
	paper := azstore.PaperRetry
	var pauses []string
	for x := 1; x <= paper.MaxRetries; x++ {
		pause := fmt.Sprintf("%.0f", paper.Pause(x, 0).Seconds())
		if most := paper.Pause(x, 1); most > paper.Pause(x, 0) {
			pause += fmt.Sprintf(" to %.0f", most.Seconds())
		}
		pauses = append(pauses, pause+" s")
	}
	s.Next(strings.Join(pauses, ", "))
	s.Claim(paper.Pause(1, 0) == 39*time.Second && paper.Pause(5, 0.5) == 90*time.Second)

	herd := func(r azstore.Retry) (most int) {
		at := map[int]int{}
		for range 200 {
			slot := int(r.Pause(2, rand.Float64()) / (20 * time.Millisecond))
			at[slot]++
			most = max(most, at[slot])
		}
		return most
	}
	fixed := herd(azstore.Retry{Strategy: azstore.Fixed, Delay: 500 * time.Millisecond})
	spread := herd(azstore.Retry{Strategy: azstore.Exponential, Delay: 500 * time.Millisecond, MaxDelay: time.Minute})
	s.Claim(fixed == 200 && spread < fixed/3, fixed, spread)
}
