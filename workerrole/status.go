package main

import (
	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
	"github.com/cutroom/cutroom/workerrole/internal/upkeep"
)

// status is the row of the register: self, with what the worker is doing now.
func status(self workers.Worker, work *consumer.Consumer, leader *upkeep.Leader) workers.Worker {
	stats, w := work.Stats(), self
	w.Draining, w.Leader, w.Busy, w.Queues = stats.Draining, leader.Leading(), stats.Running, map[string]workers.Count{}
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
	if err := work.Ready(); err != nil {
		w.Trouble = err.Error()
	}
	return w
}
