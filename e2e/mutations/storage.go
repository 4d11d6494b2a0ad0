package mutations

// storage are mistakes in tables, and in the rows of videos and workers.
var storage = []Mutation{
	{
		Name: "the second page of a partition that is cleared",
		Edits: []Edit{{
			File: "shared/tablestore/batch.go",
			Old:  `if token = next; token == "" {`,
			New:  `if token = next; true || token == "" {`,
		}},
		Package: "./shared/tablestore", Test: "TestClearPartition",
		Says: "removed 1000 rows",
	},
	{
		Name: "neighbours in scripts of which the segmenter knows no words",
		Edits: []Edit{{
			File: "shared/searchindex/words.go",
			Old:  `case kind == segment.None:`,
			New:  `case false:`,
		}},
		Package: "./shared/searchindex", Test: "TestTermsOf",
		Says: `terms of "สวัสดี"`,
	},
	{
		Name: "videos that an earlier release indexed",
		Edits: []Edit{{
			File: "shared/searchindex/index.go",
			Old:  `row.Int(wordsProperty) < wordsVersion`,
			New:  `false`,
		}},
		Package: "./workerrole/internal/upkeep", Test: "TestVideosOfAnEarlierReleaseAreIndexedAgain",
		Says: "has 0 hits by its title",
	},
	{
		Name: "the fence of a commit",
		Edits: []Edit{{
			File: "shared/videostore/claim.go",
			Old:  `ops := []tablestore.Op{{Kind: tablestore.OpReplace, Entity: step.row(), IfMatch: c.Step.etag}}`,
			New:  `ops := []tablestore.Op{{Kind: tablestore.OpReplace, Entity: step.row(), IfMatch: "*"}}`,
		}},
		Package: "./shared/videostore", Test: "TestClaimIsAFence",
		Says: "stale commit: <nil>, want ErrSuperseded",
		Soak: []string{"was committed twice", "was done and is"},
	},
	{
		Name: "the insert that decides who promises finish",
		Edits: []Edit{{
			File: "shared/videostore/fan.go",
			Old:  `{Kind: tablestore.OpInsert, Entity: last.row()},`,
			New:  `{Kind: tablestore.OpUpsert, Entity: last.row()},`,
		}},
		Package: "./shared/videostore", Test: "TestFanInHasOneWinner",
		Says: "winners, sent",
		Soak: []string{":finish:00000 of"},
	},
	{
		Name: "one part of those that finish waits for",
		Edits: []Edit{{
			File: "shared/videostore/fan.go",
			Old:  `if n > 0 {`,
			New:  `if n > 1 {`,
		}},
		Package: "./shared/videostore", Test: "TestStepsThatFailAlone",
		Says: "the last step does not wait for",
		Soak: []string{"was promised while"},
	},
	{
		Name: "META that must be unchanged when finish is promised",
		Edits: []Edit{{
			File: "shared/videostore/fan.go",
			Old:  "\t\t\tunchangedMeta(rec),\n",
			New:  "",
		}},
		Package: "./shared/videostore", Test: "TestFanInDuringADelete",
		Says: "1 rows are left of the erased video",
	},
	{
		Name: "that a step after ready is wanted before",
		Edits: []Edit{{
			File: "shared/workflow/step.go",
			Old:  `return v.Working() && v.Generation == generation || s.FailsAlone()`,
			New:  `return v.Working() && v.Generation == generation && s.Stage != AfterReady || s.FailsAlone()`,
		}},
		Package: "./shared/videostore", Test: "TestPlanOfAReleaseThatDeclaredTheStepElsewhere",
		Says: "step is not wanted any more",
	},
	{
		Name: "that the end of a step after ready promises the last step",
		Edits: []Edit{{
			File: "shared/videostore/fan.go",
			Old:  `if step.Stage != workflow.Part && step.Stage != workflow.AfterReady {`,
			New:  `if step.Stage != workflow.Part {`,
		}},
		Package: "./shared/videostore", Test: "TestPlanOfAReleaseThatDeclaredTheStepElsewhere",
		Says: "the last step is not promised after the end of the digest",
	},
	{
		Name: "the plan's word in the timeline",
		Edits: []Edit{{
			File: "shared/videostore/fan.go",
			Old:  `switch workflow.StageIn(v.Plans[key.Generation], step) {`,
			New:  `switch step.Stage {`,
		}},
		Package: "./shared/videostore", Test: "TestPlanOfAReleaseThatDeclaredTheStepElsewhere",
		Says: "the timeline says that nobody has asked for the digest",
	},
	{
		Name: "that a row that cannot be read is left out",
		Edits: []Edit{{
			File: "shared/tablestore/query.go",
			Old:  `case q.Read == nil:`,
			New:  `default:`,
		}},
		Package: "./shared/workers", Test: "TestUnreadableRowsHideNobody",
		Says: "row cannot be read",
	},
	{
		Name: "that a property of another type cannot be read",
		Edits: []Edit{{
			File: "shared/tablestore/entity.go",
			Old:  `there != nil && e.mistake != nil`,
			New:  `false && there != nil && e.mistake != nil`,
		}},
		Package: "./shared/tablestore", Test: "TestGettersNoteOtherTypes",
		Says: "may be asked for as something else",
	},
}
