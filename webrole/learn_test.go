package main

func init() {
	parts = append(parts, part{
		routes: `viewers GET /learn
viewers GET /patterns/:page
viewers GET /learn/:scene
viewers GET /learn/calculators
viewers GET /learn/path/:stop
viewers POST /learn/path/:stop
`,
	})
}
