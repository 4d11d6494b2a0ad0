package mutations

// web are mistakes in the web role and its pages.
var web = []Mutation{
	{
		Name: "the time for a whole body",
		Edits: []Edit{{
			File: "webrole/internal/edge/deadline.go",
			Old:  `_ = b.control.SetReadDeadline(time.Now().Add(bodyTime))`,
			New:  `_ = bodyTime`,
		}},
		Package: "./webrole", Test: "TestBodiesThatStall/JSON",
		Says: "i/o timeout",
	},
	{
		Name: "the least pace of an upload",
		Edits: []Edit{{
			File: "webrole/internal/edge/deadline.go",
			Old:  `b.control.SetReadDeadline(start.Add(paceSpan))`,
			New:  `b.control.SetReadDeadline(time.Time{})`,
		}},
		Package: "./webrole", Test: "TestBodiesThatStall/content",
		Says: "i/o timeout",
	},
	{
		Name: "the time for a rest that nobody reads",
		Edits: []Edit{{
			File: "webrole/internal/edge/deadline.go",
			Old:  `_ = b.control.SetReadDeadline(time.Now().Add(drainTime))`,
			New:  `_ = drainTime`,
		}},
		Package: "./webrole", Test: "TestBodiesThatStall/JSON_of_a_kind_that_is_not_read",
		Says: "want 2s",
	},
	{
		Name: "that a failed service is known as one",
		Edits: []Edit{{
			File: "webrole/internal/problem/map.go",
			Old:  "errors.Is(err, registrations.ErrContended),\n\t\tazstorage.IsUnavailable(err):",
			New:  "errors.Is(err, registrations.ErrContended):",
		}},
		Package: "./webrole", Test: "TestTablesAreAwayForAStartList",
		Says: "status 500, want 503",
	},
	{
		Name: "Retry-After",
		Edits: []Edit{{
			File: "webrole/internal/problem/problem.go",
			Old:  `if e.RetryAfter > 0 {`,
			New:  `if false && e.RetryAfter > 0 {`,
		}},
		Package: "./webrole", Test: "TestTablesAreAwayForAStartList",
		Says: "it does not say when to come again",
	},
	{
		Name: "one transaction for a runner's rows",
		Edits: []Edit{{
			File: "shared/registrations/import.go",
			Old:  `etags, err := w.store.rows.Submit(context.WithoutCancel(ctx), ops)`,
			New: `var etags []string
			var err error
			for _, op := range ops {
				var one []string
				if one, err = w.store.rows.Submit(context.WithoutCancel(ctx), []tablestore.Op{op}); err != nil {
					break
				}
				etags = append(etags, one...)
			}`,
		}},
		Package: "./webrole", Test: "TestTablesAreAwayForAStartList",
		Says: "rows of 3",
	},
	{
		Name: "breakers in the stream of the board",
		Edits: []Edit{{
			File: "webrole/internal/board/state.go",
			Old:  `for _, b := range w.Breakers {`,
			New:  `for _, b := range w.Breakers[:0] {`,
		}},
		Package: "./webrole", Test: "TestBoardSaysThatABreakerIsOpen",
		Says: "the open breaker",
	},
	{
		Name: "trouble in the tables of the board",
		Edits: []Edit{{
			File: "webrole/web/templates/tables.html",
			Old:  `{{else if .Trouble}}{{.Trouble}}`,
			New:  ``,
		}},
		Package: "./webrole", Test: "TestBoardSaysThatABreakerIsOpen",
		Says: "the tables: want",
	},
	{
		Name: "semicolons and tabs in start lists",
		Edits: []Edit{{
			File: "webrole/internal/startlist/csv.go",
			Old:  `range ",;\t"`,
			New:  `range ","`,
		}},
		Package: "./webrole/internal/startlist", Test: "TestCSV",
		Says: "semicolons, whole",
	},
	// The two of the picture are in the script that is made from
	// webrole/web/src/board/picture.ts: names of properties stay as they are there.
	{
		Name: "the words of a breaker in the picture",
		Edits: []Edit{{
			File: "webrole/web/static/board.js",
			Old:  `.breakers.map(`,
			New:  `.breakers.slice(0,0).map(`,
		}},
		Package: "./e2e/browser", Test: "TestBoardIsAlive",
		Says: "includes('blob open')",
	},
	{
		Name: "the removal of a breaker's words from the picture",
		Edits: []Edit{{
			File: "webrole/web/static/board.js",
			Old:  `.chips.replaceChildren(`,
			New:  `.chips.append(`,
		}},
		Package: "./e2e/browser", Test: "TestBoardIsAlive",
		Says: "!/receives nothing|blob|trouble/",
	},
	{
		Name: "that an unknown visibility is private",
		Edits: []Edit{{
			File: "webrole/internal/access/access.go",
			Old:  `v.Visibility.Linked() || owns`,
			New:  `v.Visibility != video.Private || owns`,
		}},
		Package: "./webrole/internal/access", Test: "TestUnknownAllowsTheLeast",
		Says: "an unknown Visibility may do",
	},
	{
		Name: "that an unknown state is hidden",
		Edits: []Edit{{
			File: "shared/video/video.go",
			Old:  `return !s.Terminal() && !s.Active() && s != AwaitingUpload`,
			New:  `return s == Deleting`,
		}},
		Package: "./webrole/internal/access", Test: "TestUnknownAllowsTheLeast",
		Says: "an unknown State may do",
	},
}
