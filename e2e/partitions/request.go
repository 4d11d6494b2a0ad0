package partitions

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
)

// operation is what the model must know about a request.
type operation struct {
	kind  kind
	table string
	key   string  // PartitionKey; of a query, where it begins
	cost  float64 // entities that are known before the answer
	query bounds
}

type kind int

const (
	management kind = iota // of tables and of the service: no rows
	dropTable
	rows // a point read, a write, or a transaction
	query
)

// read tells what a request does. Its body was read already.
func read(r *http.Request, body []byte) (operation, error) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	if _, rest, found := strings.Cut(path, "/"); found { // account/resource
		path = rest
	}
	if path == "$batch" {
		return readBatch(r, body)
	}
	name, keys, hasKeys := strings.Cut(path, "(")
	switch {
	case name == "" || r.URL.Query().Has("comp"):
		return operation{kind: management}, nil
	case name == "Tables":
		if r.Method == http.MethodDelete {
			dropped, _, _ := quoted(keys)
			return operation{kind: dropTable, table: dropped}, nil
		}
		return operation{kind: management}, nil
	case hasKeys && keys != ")":
		key, err := partitionKeyOf(keys)
		return operation{kind: rows, table: name, key: key, cost: 1}, err
	case r.Method == http.MethodGet:
		b := parseFilter(r.URL.Query().Get("$filter"))
		start := b.from
		if token := r.URL.Query().Get("NextPartitionKey"); token != "" {
			key, err := base64.StdEncoding.DecodeString(token)
			if err != nil {
				return operation{}, fmt.Errorf("continuation token: %w", err)
			}
			start = string(key)
		}
		return operation{kind: query, table: name, key: start, cost: 1, query: b}, nil
	default:
		var row struct{ PartitionKey string }
		if err := json.Unmarshal(body, &row); err != nil {
			return operation{}, fmt.Errorf("row to insert: %w", err)
		}
		return operation{kind: rows, table: name, key: row.PartitionKey, cost: 1}, nil
	}
}

// partitionKeyOf reads "PartitionKey='…',RowKey='…')".
func partitionKeyOf(keys string) (string, error) {
	for rest := keys; ; {
		name, after, found := strings.Cut(rest, "=")
		if !found {
			return "", fmt.Errorf("keys %q: no PartitionKey", keys)
		}
		value, after, ok := quoted(after)
		if !ok {
			return "", fmt.Errorf("keys %q: no quoted value", keys)
		}
		if name == "PartitionKey" {
			return value, nil
		}
		rest = strings.TrimPrefix(after, ",")
	}
}

// quoted reads an OData literal and returns what follows it.
func quoted(s string) (value, rest string, ok bool) {
	at := strings.IndexByte(s, '\'')
	if at < 0 {
		return "", s, false
	}
	var b strings.Builder
	for s = s[at+1:]; ; {
		text, after, found := strings.Cut(s, "'")
		b.WriteString(text)
		if !found {
			return "", s, false
		}
		if !strings.HasPrefix(after, "'") {
			return b.String(), after, true
		}
		b.WriteByte('\'')
		s = after[1:]
	}
}

// readBatch counts the operations of an entity-group transaction. All are of one
// partition; that of the first is taken.
func readBatch(r *http.Request, body []byte) (operation, error) {
	op := operation{kind: rows}
	err := eachPart(r.Header.Get("Content-Type"), bytes.NewReader(body), func(h http.Header, part io.Reader) error {
		if !strings.HasPrefix(h.Get("Content-Type"), "multipart/") {
			return op.add(part)
		}
		return eachPart(h.Get("Content-Type"), part, func(_ http.Header, part io.Reader) error { return op.add(part) })
	})
	if err == nil && op.cost == 0 {
		err = errors.New("no operation")
	}
	if err != nil {
		return operation{}, fmt.Errorf("transaction: %w", err)
	}
	return op, nil
}

// add counts one operation of a transaction.
func (o *operation) add(part io.Reader) error {
	o.cost++
	if o.table != "" {
		return nil
	}
	text := bufio.NewReader(part)
	req, err := http.ReadRequest(text)
	if err != nil {
		return fmt.Errorf("operation: %w", err)
	}
	body, err := io.ReadAll(io.MultiReader(req.Body, text)) // parts need no Content-Length
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("operation: %w", err)
	}
	first, err := read(req, body)
	if err != nil {
		return err
	}
	o.table, o.key = first.table, first.key
	return nil
}

func eachPart(contentType string, body io.Reader, do func(http.Header, io.Reader) error) error {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return fmt.Errorf("content type: %w", err)
	}
	for parts := multipart.NewReader(body, parameters["boundary"]); ; {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := do(http.Header(part.Header), part); err != nil {
			return err
		}
	}
}

// bounds are the PartitionKeys that a filter leaves: from is included, to is not
// and "" is no bound. exact: only from.
type bounds struct {
	from, to string
	exact    bool
}

// parseFilter finds the bounds in the terms that must all hold. Anything else
// leaves the whole table, as on Azure: a scan.
func parseFilter(filter string) bounds {
	var b bounds
	terms, all := conjunction(filter)
	if !all {
		return b
	}
	for _, term := range terms {
		fields := strings.SplitN(strings.TrimSpace(term), " ", 3)
		if len(fields) != 3 || fields[0] != "PartitionKey" {
			continue
		}
		value, rest, ok := quoted(fields[2])
		if !ok || strings.TrimSpace(rest) != "" {
			continue
		}
		switch fields[1] {
		case "eq":
			return bounds{from: value, exact: true}
		case "ge", "gt": // one key too many does no harm: bounds only attribute
			b.from = max(b.from, value)
		case "lt":
			if b.to == "" || value < b.to {
				b.to = value
			}
		case "le":
			if after := value + "\x00"; b.to == "" || after < b.to {
				b.to = after
			}
		}
	}
	return b
}

// conjunction cuts a filter at the "and"s outside of quotes and parentheses. It
// is false when there is an "or" or a "not" among them.
func conjunction(filter string) (terms []string, ok bool) {
	depth, inQuotes, start := 0, false, 0
	for i := 0; i < len(filter); i++ {
		switch c := filter[i]; {
		case c == '\'':
			inQuotes = !inQuotes // a doubled quote ends and begins
		case inQuotes:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case depth == 0 && strings.HasPrefix(filter[i:], " or "), depth == 0 && strings.HasPrefix(filter[i:], "not "):
			return nil, false
		case depth == 0 && strings.HasPrefix(filter[i:], " and "):
			terms = append(terms, filter[start:i])
			start = i + len(" and ")
		}
	}
	return append(terms, filter[start:]), true
}

// stopAt limits a query to the keys before end.
func stopAt(values url.Values, end string) {
	term := "PartitionKey lt '" + strings.ReplaceAll(end, "'", "''") + "'"
	if filter := values.Get("$filter"); filter != "" {
		term = "(" + filter + ") and " + term
	}
	values.Set("$filter", term)
}
