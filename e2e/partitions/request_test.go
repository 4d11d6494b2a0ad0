package partitions

import (
	"net/http"
	"strings"
	"testing"
)

func TestFiltersGiveTheirBounds(t *testing.T) {
	t.Parallel()
	for filter, want := range map[string]bounds{
		"":                    {},
		"PartitionKey eq 'a'": {from: "a", exact: true},
		"PartitionKey eq 'O''Brien and PartitionKey eq ''x'''":         {from: "O'Brien and PartitionKey eq 'x'", exact: true},
		"PartitionKey ge 'a' and PartitionKey lt 'c'":                  {from: "a", to: "c"},
		"PartitionKey ge 'a' and PartitionKey le 'c'":                  {from: "a", to: "c\x00"},
		"RowKey ge 'x' and PartitionKey eq 'p' and (A eq 1 or B eq 2)": {from: "p", exact: true},
		"PartitionKey eq 'a' or PartitionKey eq 'b'":                   {},
		"not (PartitionKey eq 'a')":                                    {},
		"Title eq 'PartitionKey eq ''a'''":                             {},
	} {
		if got := parseFilter(filter); got != want {
			t.Errorf("%s: %+v, want %+v", filter, got, want)
		}
	}
}

func TestRequestsAreUnderstood(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, url, contentType, body string
		want                           operation
	}{
		{method: "GET", url: "/acc/videos(PartitionKey='a%20b',RowKey='x''y')", want: operation{kind: rows, table: "videos", key: "a b", cost: 1}},
		{method: "DELETE", url: "/acc/videos(PartitionKey='it''s,',RowKey='r')", want: operation{kind: rows, table: "videos", key: "it's,", cost: 1}},
		{method: "POST", url: "/acc/videos", body: `{"PartitionKey":"p","RowKey":"r"}`, want: operation{kind: rows, table: "videos", key: "p", cost: 1}},
		{method: "GET", url: "/acc/videos()?$filter=PartitionKey%20eq%20'p'", want: operation{kind: query, table: "videos", key: "p", cost: 1, query: bounds{from: "p", exact: true}}},
		{method: "GET", url: "/acc/videos()?NextPartitionKey=cQ==", want: operation{kind: query, table: "videos", key: "q", cost: 1}},
		{method: "GET", url: "/acc/Tables", want: operation{kind: management}},
		{method: "DELETE", url: "/acc/Tables('videos')", want: operation{kind: dropTable, table: "videos"}},
		{
			method: "POST", url: "/acc/$batch", contentType: "multipart/mixed; boundary=b",
			body: strings.ReplaceAll(`--b
Content-Type: multipart/mixed; boundary=c

--c
Content-Type: application/http
Content-Transfer-Encoding: binary

POST http://127.0.0.1/acc/videos HTTP/1.1
Content-Type: application/json

{"PartitionKey":"p","RowKey":"1"}
--c
Content-Type: application/http
Content-Transfer-Encoding: binary

PUT http://127.0.0.1/acc/videos(PartitionKey='p',RowKey='2') HTTP/1.1

{"PartitionKey":"p"}
--c--
--b--
`, "\n", "\r\n"),
			want: operation{kind: rows, table: "videos", key: "p", cost: 2},
		},
	} {
		r, err := http.NewRequest(c.method, c.url, nil) //nolint:noctx // it is only read
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", c.contentType)
		got, err := read(r, []byte(c.body))
		if err != nil || got != c.want {
			t.Errorf("%s %s: %+v, %v; want %+v", c.method, c.url, got, err, c.want)
		}
	}
}
