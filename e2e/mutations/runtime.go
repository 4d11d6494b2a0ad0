package mutations

// runtime are mistakes in the queue runtime that random histories find. A history that shows
// one may be rare, so there are more of them than in `make test`.
var runtime = histories([]Mutation{
	{
		Name:  "that what a handler says is made storable before it is kept",
		Edits: []Edit{{"shared/workqueue/poison.go", "row.Props[name] = storable.Text(value, maxProperty)", "row.Props[name] = value + storable.Text(\"\", 1)"}},
	},
	{
		Name:  "that a panic of a hook is an error",
		Edits: []Edit{{"shared/workqueue/consumer/settle.go", `return o.callHook(ctx, "Exhausted", func(ctx context.Context) error { return hears.Exhausted(ctx, o.job, cause) })`, "return hears.Exhausted(ctx, o.job, cause)"}},
		Says:  "a mistake in a hook",
	},
	{
		Name:  "that a message that came as JSON goes back as JSON",
		Edits: []Edit{{"shared/workqueue/lease.go", "if !workitem.IsPlain(l.text) {", "if !workitem.IsPlain(l.text) || true {"}},
	},
	{
		Name:  "that a policy is written while its lease holds",
		Edits: []Edit{{"shared/workqueue/policy.go", "context.WithDeadline(ctx, held.Add(policyLease-policyMargin))", "context.WithDeadline(ctx, held.Add(time.Hour))"}},
	},
	{
		Name:  "that nothing is received before the policy is known",
		Edits: []Edit{{"shared/workqueue/policy.go", "\tif read {\n", "\tif read || true {\n"}},
	},
	{
		Name:  "that a poller which waited for a slot asks whether the queue is paused",
		Edits: []Edit{{"shared/workqueue/consumer/poller.go", "if l.queue.Policy().Paused { // perhaps", "if false { // perhaps"}},
	},
	{
		Name:  "that lost deliveries are no crash loop",
		Edits: []Edit{{"shared/workqueue/consumer/owner.go", "case o.job.Item.Starts >= most-most/2, ", "case unexplained >= most-most/2, "}},
	},
	{
		Name:  "that a visibility which somebody wrote by hand is bounded",
		Edits: []Edit{{"shared/workqueue/policy.go", "min(max(ms, minVisibility.Milliseconds()), maxVisibility.Milliseconds())", "ms"}},
	},
	{
		Name:  "that of several redrives one sends",
		Edits: []Edit{{"shared/workqueue/poison.go", "qs.poison.Update(ctx, row, row.ETag)", `qs.poison.Update(ctx, row, "*")`}, {"shared/workqueue/poison.go", "if time.Since(row.Time(redriving)) < redriveTakes {", "if false {"}},
	},
	{
		Name:  "that times of the service are told by our clock",
		Edits: []Edit{{"shared/azstorage/clock.go", "if a.clock.ahead.Abs() <= clockSlack || there.IsZero() {", "if a.clock.ahead.Abs() <= clockSlack || true {"}},
	},
	{
		Name:  "that what failed as often as it may is poison",
		Edits: []Edit{{"shared/workqueue/consumer/settle.go", "if failures >= o.maxFailures() {", "if failures > o.maxFailures() {"}, {"shared/workqueue/consumer/owner.go", "case item.Failures >= o.maxFailures():", "case item.Failures > o.maxFailures():"}},
	},
})

// histories completes mutations that TestHistories finds.
func histories(list []Mutation) []Mutation {
	for i := range list {
		list[i].Package, list[i].Test = "./shared/workqueue/histories", "TestHistories"
		if list[i].Says == "" {
			list[i].Says = "WRONG: "
		}
		list[i].Env = []string{"RAPID_CHECKS=3000", "RAPID_SHRINKTIME=1s"}
	}
	return list
}
