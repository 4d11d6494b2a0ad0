// Command register brings a start list into the running stack with a progress
// bar, and asks for runners by bib and by age: `make register`.
//
//	make register FILE=runners.csv EVENT='2011 New York City Marathon__Full'
//	make register N=50000
//
// Without FILE it makes up a field of N runners (50,000). Repeating it changes
// nothing.
//
// Next: shared/registrations, how a runner is stored.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/command"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/progress"
	"github.com/cutroom/cutroom/e2e/stack"
)

const (
	defaultEvent  = "2011 New York City Marathon__Full"
	defaultN      = 50_000
	shownRefusals = 10 // lines, of all that were refused
)

func main() {
	command.Main("register", func(ctx context.Context) error { return run(ctx, os.Getenv, os.Stdout) })
}

func run(ctx context.Context, getenv func(string) string, out io.Writer) error {
	options, err := stack.FromEnv(getenv)
	if err != nil {
		return err
	}
	event := getenv("EVENT")
	if event == "" {
		event = defaultEvent
	}
	list, err := startList(getenv("FILE"), getenv("N"))
	if err != nil {
		return err
	}
	user, err := journey.New("http://" + options.WebAddr)
	if err != nil {
		return err
	}
	defer user.Close()
	if err := register(ctx, user, event, list, out); err != nil {
		return fmt.Errorf("%w\n`make up` starts the stack; registering again is safe", err)
	}
	return ask(ctx, user, event, out)
}

// startList reads a CSV file, or makes a field up.
func startList(path, n string) (list []byte, err error) {
	if path != "" {
		if list, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read the start list: %w", err)
		}
		return list, nil
	}
	count := defaultN
	if n != "" {
		if count, err = strconv.Atoi(n); err != nil || count < 1 || count > 99_999 {
			return nil, fmt.Errorf("the variable N is %q, want a number from 1 to 99999", n)
		}
	}
	var made bytes.Buffer
	err = journey.StartList(&made, count)
	return made.Bytes(), err
}

// register sends the list, and says what came of it.
func register(ctx context.Context, user *journey.User, event string, list []byte, out io.Writer) error {
	started := time.Now()
	bar := progress.New("register", int64(len(list)), true)
	sum, err := user.Register(ctx, event, io.TeeReader(bytes.NewReader(list), bar))
	bar.End()
	if err != nil {
		return err
	}
	took := time.Since(started).Seconds()
	fmt.Fprintf(out, "registered for %s\n", event)
	fmt.Fprintf(out, "accepted:   %d, of which %d were there before\n", sum.Accepted, sum.Unchanged)
	fmt.Fprintf(out, "refused:    %d\n", sum.Refused)
	for _, r := range sum.Refusals[:min(len(sum.Refusals), shownRefusals)] {
		fmt.Fprintf(out, "            line %d: %s: %s\n", r.Line, r.Code, r.Detail)
	}
	fmt.Fprintf(out, "cost:       %d requests to the table in %.1f s\n", sum.Requests, took)
	return nil
}

// ask shows the two dominant queries, each a row range (T5, T7).
func ask(ctx context.Context, user *journey.User, event string, out io.Writer) error {
	bib, from, to, limit := 1234, 50, 59, 100
	for _, q := range []struct {
		label string
		query client.ListRegistrationsParams
	}{
		{"bib 1234", client.ListRegistrationsParams{Bib: &bib}},
		{"ages 50–59", client.ListRegistrationsParams{AgeFrom: &from, AgeTo: &to, Limit: &limit}},
	} {
		started := time.Now()
		page, err := user.Runners(ctx, event, q.query)
		if err != nil {
			return err
		}
		more := ""
		if page.NextPageToken != nil {
			more = " and more"
		}
		fmt.Fprintf(out, "%-11s %d runners%s: %d rows read in %d request, %.0f ms\n", q.label+":", len(page.Items), more,
			page.EntitiesRead, page.Requests, float64(time.Since(started).Microseconds())/1000)
		for _, r := range page.Items[:min(len(page.Items), 3)] {
			fmt.Fprintf(out, "            %d  %s  %s  %d\n", r.Bib, r.Name, r.Sex, r.Age)
		}
	}
	return nil
}
