package mutations

// worker are mistakes in what a worker receives, leads and bears.
var worker = []Mutation{
	{
		Name:    "that what is stored of a failure is made storable",
		Edits:   []Edit{{"shared/workqueue/poison.go", "row.Props[name] = storable.Text(value, maxProperty)", "row.Props[name], _ = value, storable.Text"}},
		Package: "./shared/workqueue/consumer", Test: "TestEveryFailureCanBeRecorded/a_long_subject", Says: "not within",
	},
	{
		Name:    "that a queue is not polled before its policy was read",
		Edits:   []Edit{{"shared/workqueue/policy.go", "\tif read {\n", "\tif read || true {\n"}},
		Package: "./shared/workqueue/consumer", Test: "TestUnreadPolicyIsAPause", Says: "were handled on a paused queue",
	},
	{
		Name:    "that a redrive claims the row first",
		Edits:   []Edit{{"shared/workqueue/poison.go", "qs.poison.Update(ctx, row, row.ETag)", `qs.poison.Update(ctx, row, "*")`}, {"shared/workqueue/poison.go", "if time.Since(row.Time(redriving)) < redriveTakes {", "if false {"}},
		Package: "./shared/workqueue/consumer", Test: "TestRedriveAtOnceSendsOnce", Says: "said that they sent it",
	},
	{
		Name:    "that the policy is written within its lease",
		Edits:   []Edit{{"shared/workqueue/policy.go", "context.WithDeadline(ctx, held.Add(policyLease-policyMargin))", "context.WithDeadline(ctx, held.Add(time.Hour))"}},
		Package: "./shared/workqueue", Test: "TestPolicyIsWrittenWithinItsLease", Says: "a request about the policy may last",
	},
	{
		Name:    "that all calls that are not in the table are refused",
		Edits:   []Edit{{"workerrole/internal/cage/filter_linux.go", "DefaultAction: seccomp.ActionErrno,", "DefaultAction: seccomp.ActionAllow,"}},
		Package: "./workerrole/internal/cage", Test: "TestHostileCalls", Says: "made:",
	},
	{
		Name: "that audio-first is not bulk",
		Edits: []Edit{{
			File: "shared/workflow/queues.go",
			Old:  `{Name: AudioFirst, `,
			New:  `{Name: AudioFirst, Bulk: true, `,
		}},
		Package: "./shared/workflow", Test: "TestBeginningsAreNotBulk",
		Says: "first portion travels on audio-first, which is bulk: true",
	},
	{
		Name: "the bound of a queue",
		Edits: []Edit{{
			File: "shared/workqueue/consumer/pool.go",
			Old:  `if b := t.share.bound; b != nil && b.held >= b.most {`,
			New:  `if b := t.share.bound; false && b != nil && b.held >= b.most {`,
		}},
		Package: "./shared/workqueue/consumer", Test: "TestAQueueHoldsItsShareOfAPool",
		Says: "got 4 of 4 slots, want 2",
	},
	{
		Name: "the bound of a queue, by one",
		Edits: []Edit{{
			File: "shared/workqueue/consumer/pool.go",
			Old:  `if b := t.share.bound; b != nil && b.held >= b.most {`,
			New:  `if b := t.share.bound; b != nil && b.held > b.most {`,
		}},
		Package: "./shared/workqueue/consumer", Test: "TestPoolNeverOverflows",
		Says: "two lanes of a queue hold",
	},
	{
		Name: "the lanes of a viewer's queue",
		Edits: []Edit{{
			File: "workerrole/internal/pipeline/preview.go",
			Old:  `job.Base == key.Declared().Queues[0]`,
			New:  `job.Queue == key.Declared().Queues[0]`,
		}},
		Package: "./workerrole/internal/pipeline", Test: "TestAViewerIsRecognisedInEveryLane",
		Says: "lane 1: a viewer's chunk is not recognised",
	},
	{
		Name: "the lane that a job leaves out of its queue's name",
		Edits: []Edit{{
			File: "shared/workqueue/consumer/owner.go",
			Old:  `Base: l.queue.Spec().Base(), `,
			New:  `Base: l.queue.Name(), `,
		}},
		Package: "./shared/workqueue/consumer", Test: "TestAJobNamesItsQueueInEveryLane",
		Says: "queues and their bases",
	},
	{
		Name: "that a late timer is no stall",
		Edits: []Edit{{
			File: "shared/workqueue/consumer/owner.go",
			Old:  `if o.stoodStill(due, now) {`,
			New:  `if false && o.stoodStill(due, now) {`,
		}},
		Package: "./shared/workqueue/consumer", Test: "TestStandstillIsNoStall/lease_goes_on",
		Says: "Stalled:1",
	},
	{
		// The first alone is not missed: after a late timer no stall is due.
		Name: "the end of the lease before the stall, and that a late timer is no stall",
		Edits: []Edit{{
			File: "shared/workqueue/consumer/owner.go",
			Old:  `case !o.c.options.FixedLease && !now.Before(o.stopAt()):`,
			New:  `case !o.c.options.FixedLease && !now.Before(o.stopAt()) && now.Before(o.stallAt()):`,
		}, {
			File: "shared/workqueue/consumer/owner.go",
			Old:  `if o.stoodStill(due, now) {`,
			New:  `if false && o.stoodStill(due, now) {`,
		}},
		Package: "./shared/workqueue/consumer", Test: "TestStandstillIsNoStall/lease_has_ended",
		Says: "Stalled:1",
	},
	{
		Name: "one name of the lease for all",
		Edits: []Edit{{
			File: "workerrole/internal/upkeep/leader.go",
			Old:  `workqueue.ControlContainer, leaseBlob, leaseTime)`,
			New:  `workqueue.ControlContainer, leaseBlob+time.Now().Format("150405.000000000"), leaseTime)`,
		}},
		Package: "./workerrole/internal/upkeep", Test: "TestOneLeaderAtATime",
		Says: "two lead",
	},
	{
		Name: "heed of a lease that is taken",
		Edits: []Edit{{
			File: "shared/blobstore/lease.go",
			Old:  `err = fmt.Errorf("%w: %w", ErrLeaseTaken, err)`,
			New:  `err = nil`,
		}},
		Package: "./workerrole/internal/upkeep", Test: "TestOneLeaderAtATime",
		Says: "two lead",
	},
	{
		Name: "the release of the lease at the end",
		Edits: []Edit{{
			File: "workerrole/internal/upkeep/leader.go",
			Old:  `if err := lease.Release(release); err != nil {`,
			New:  `if err := release.Err(); err != nil {`,
		}},
		Package: "./workerrole/internal/upkeep", Test: "TestOneLeaderAtATime",
		Says: "the second does not take over",
	},
	{
		Name: "the reconciler",
		Edits: []Edit{{
			File: "workerrole/main.go",
			Old:  `Do: reconciler.Pass}`,
			New:  `Do: func(context.Context) (upkeep.Pass, error) { _ = reconciler.Pass; return upkeep.Pass{}, nil }}`,
		}},
		Package: "./e2e/crash", Test: "TestPromiseIsKeptAfterACrash",
		Says: ": not probed",
		Soak: []string{"was uploaded and is uploaded", "was uploaded and is processing", "is still being deleted", "promise "},
	},
	{
		Name: "the breaker in /readyz",
		Edits: []Edit{{
			File: "workerrole/main.go",
			Old:  `if err := work.Ready(); err != nil {`,
			New:  `if err := work.Ready(); false && err != nil {`,
		}},
		Package: "./workerrole", Test: "TestReadinessFollowsTheBreaker",
		Says: `/readyz: 200 "ok\n", want 503`,
	},
	{
		Name: "that only trouble of now counts",
		Edits: []Edit{{
			File: "shared/workqueue/consumer/breaker.go",
			Old:  "if s.State == BreakerOpen {\n\t\t\treturn &TroubleError{s}",
			New:  "if s.Troubles > 0 {\n\t\t\treturn &TroubleError{s}",
		}},
		Package: "./workerrole", Test: "TestReadinessFollowsTheBreaker",
		Says: "not ready: trouble with blob since 0001-01-01T00:00:00Z",
	},
	{
		Name: "the room that a copy needs",
		Edits: []Edit{{
			File: "workerrole/internal/step/probe.go",
			Old:  `if err := w.NeedRoom(source.CopyLimit(found)); err != nil {`,
			New:  `if err := w.NeedRoom(0); err != nil {`,
		}},
		Package: "./workerrole", Test: "TestCopyWithoutRoomIsMadeByAnother",
		Says: "want it begun and left",
	},
	{
		Name: "the language of captions",
		Edits: []Edit{{
			File: "workerrole/internal/step/captions.go",
			Old:  `language.Make(w.Step.Key.Language)`,
			New:  `language.Und`,
		}},
		Package: "./workerrole/internal/step", Test: "TestCaptionsOfALanguage",
		Says: "Gyõr",
	},
	{
		Name: "that neighbours among letters tell encodings apart",
		Edits: []Edit{{
			File: "shared/charset/guess.go",
			Old:  `if len(alikes) > 1 {`,
			New:  `if len(alikes) > 1000 {`,
		}},
		Package: "./shared/charset", Test: "TestOrderOfPreference",
		Says: "РТЙЧЕФ",
	},
	{
		Name: "that damaged UTF-8 is refused",
		Edits: []Edit{{
			File: "shared/charset/charset.go",
			Old:  `return valid >= 4*invalid`,
			New:  `return invalid == 0`,
		}},
		Package: "./shared/charset", Test: "TestRefusals",
		Says: "damaged UTF-8 was read as",
	},
	{
		Name: "that damaged times are no text",
		Edits: []Edit{{
			File: "workerrole/internal/captions/captions.go",
			Old:  `case almost.MatchString(line):`,
			New:  `case false && almost.MatchString(line):`,
		}},
		Package: "./workerrole/internal/captions", Test: "TestUnreadable",
		Says: "a letter in a time: <nil>",
	},
}
