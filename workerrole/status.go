package main

import (
	"os"
	"time"

	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
	"github.com/cutroom/cutroom/workerrole/internal/upkeep"
)

// status shows what the worker is doing, for the register.
type status struct {
	cfg     config
	host    string
	started time.Time
	work    *consumer.Consumer
	leader  *upkeep.Leader
}

func newStatus(cfg config, work *consumer.Consumer, leader *upkeep.Leader) *status {
	host, _ := os.Hostname()
	return &status{cfg: cfg, host: host, started: time.Now().UTC(), work: work, leader: leader}
}

// worker is the row of the register.
func (s *status) worker() workers.Worker {
	stats := s.work.Stats()
	w := workers.Worker{
		Name: s.cfg.Name, Host: s.host, PID: os.Getpid(), StartedAt: s.started,
		Draining: stats.Draining, Leader: s.leader.Leading(), Pools: s.cfg.Pools,
		Busy: stats.Running, Queues: map[string]workers.Count{},
	}
	for _, q := range stats.Queues {
		w.Done += q.Completed
		w.Failed += q.Failed
		w.Troubled += q.Troubled
		w.Stale += q.StaleDeletes + q.StaleRenewals
		count := workers.Count{Done: q.Completed, Failed: q.Failed, Poisoned: q.Poisoned, Renewed: q.Renewals, Released: q.Released + q.Troubled, Seconds: q.Worked.Seconds()}
		if count != (workers.Count{}) {
			w.Queues[q.Queue] = count
		}
	}
	for _, b := range stats.Breakers {
		if b.State != consumer.BreakerClosed {
			w.Breakers = append(w.Breakers, b)
		}
	}
	if err := s.work.Ready(); err != nil {
		w.Trouble = err.Error()
	}
	return w
}
