package partitions

import (
	"errors"
	"fmt"
	"time"
)

// Targets that Microsoft publishes:
// https://learn.microsoft.com/azure/storage/tables/scalability-targets
const (
	TargetPartition      = 2000  // entities of 1 KiB per second of one PartitionKey
	TargetPartitionPaper = 500   // the same when the paper was written
	TargetAccount        = 20000 // requests per second of one account
)

// Config says what the model is like. The zero value is one without random
// events: published budgets, splits and moves only under load.
type Config struct {
	// Seed makes the same choices again, as far as requests come in the same order.
	Seed uint64
	// Scale divides all budgets: an emulator on a laptop cannot reach Azure's.
	// 20 means "1:20", one request here stands for twenty there. 0 means 1.
	Scale float64

	// Budgets in Azure's own numbers, before Scale. 0: the targets above; an
	// assumed 2 × PartitionBudget for a server. Negative: no limit.
	PartitionBudget float64 // entities/s of a PartitionKey
	ServerBudget    float64 // entities/s of a partition server
	AccountBudget   float64 // requests/s

	Servers    int           // partition servers; 0: 12
	SplitAfter time.Duration // a range is split or moved when it was hot for so long; 0: 2 s
	MoveTime   time.Duration // a moving range is away for so long; 0: 2 s
	MergeAfter time.Duration // cold neighbours become one range; 0: 30 s

	// Churn makes the service restless whatever the load is: about once in this
	// time some range that is in use splits, if it can, and moves. 0: never.
	Churn time.Duration

	// Shares of queries, 0 to 1, that are answered with an empty page and a
	// token, and with fewer rows than they could be.
	EmptyPages, ShortPages float64

	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// hotShare of a server's budget makes a range hot.
const hotShare = 0.5

func (c Config) complete() (Config, error) {
	if c.Scale == 0 {
		c.Scale = 1
	}
	if c.Scale < 0 || c.EmptyPages < 0 || c.EmptyPages > 1 || c.ShortPages < 0 || c.ShortPages > 1 {
		return c, errors.New("partition model: scale must be positive and shares from 0 to 1")
	}
	if c.PartitionBudget == 0 {
		c.PartitionBudget = TargetPartition
	}
	if c.ServerBudget == 0 {
		c.ServerBudget = 2 * c.PartitionBudget
	}
	if c.AccountBudget == 0 {
		c.AccountBudget = TargetAccount
	}
	for _, budget := range []*float64{&c.PartitionBudget, &c.ServerBudget, &c.AccountBudget} {
		*budget /= c.Scale
	}
	if c.Servers == 0 {
		c.Servers = 12
	}
	for d, unset := range map[*time.Duration]time.Duration{
		&c.SplitAfter: 2 * time.Second, &c.MoveTime: 2 * time.Second, &c.MergeAfter: 30 * time.Second,
	} {
		if *d < 0 {
			return c, fmt.Errorf("partition model: %v is no duration", *d)
		}
		if *d == 0 {
			*d = unset
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

// String says what the model is, for reports.
func (c Config) String() string {
	c, err := c.complete()
	if err != nil {
		return err.Error()
	}
	budget := func(perSecond float64, unit string) string {
		if perSecond < 0 {
			return "no limit"
		}
		return fmt.Sprintf("%.4g %s/s", perSecond, unit)
	}
	text := fmt.Sprintf("scale 1:%g: PartitionKey %s, server %s (assumed), account %s; %d servers; hot for %v splits, a move takes %v",
		c.Scale, budget(c.PartitionBudget, "entities"), budget(c.ServerBudget, "entities"), budget(c.AccountBudget, "requests"),
		c.Servers, c.SplitAfter, c.MoveTime)
	if c.Churn > 0 {
		text += fmt.Sprintf("; some range splits and moves every %v", c.Churn)
	}
	if c.EmptyPages > 0 || c.ShortPages > 0 {
		text += fmt.Sprintf("; %.0f %% of queries begin with an empty page, %.0f %% are cut short", 100*c.EmptyPages, 100*c.ShortPages)
	}
	return text
}
