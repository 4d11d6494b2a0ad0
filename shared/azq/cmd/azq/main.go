// Command azq operates the queues of an Azure Storage account. It asks the account what there is.
//
//	AZURE_STORAGE_CONNECTION_STRING='…' azq queues # or AZURE_STORAGE_ACCOUNT, after az login
//	azq poison --json | jq -r '.items[].id' | xargs azq redrive
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/alecthomas/kong"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqops"
	"github.com/cutroom/cutroom/shared/azstore"
)

type command struct {
	ConnectionString string `env:"AZURE_STORAGE_CONNECTION_STRING" placeholder:"TEXT" help:"Of the account."`
	Account          string `env:"AZURE_STORAGE_ACCOUNT" placeholder:"NAME" help:"Instead, after az login."`
	EndpointSuffix   string `env:"AZURE_STORAGE_ENDPOINT_SUFFIX" placeholder:"HOST" help:"Default: core.windows.net."`
	Prefix           string `placeholder:"TEXT" help:"What the names of the program's queues and tables begin with."`
	JSON             bool   `name:"json" help:"Print JSON."`

	Queues     queues     `cmd:"" help:"List the queues with length and policy."`
	Peek       peek       `cmd:"" help:"Show the first messages of a queue without taking them."`
	Poison     poison     `cmd:"" help:"List the items that no worker could finish."`
	Redrive    redrive    `cmd:"" help:"Send poison items to their queues again."`
	Pause      pause      `cmd:"" help:"Stop workers from taking from a queue."`
	Resume     resume     `cmd:"" help:"Undo pause."`
	Visibility visibility `cmd:"" help:"Set how long a message that a worker has taken is hidden from others."`
	Clear      empty      `cmd:"" help:"Remove every message of queues and their lanes."`
	Send       send       `cmd:"" help:"Put an item into a queue."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c command
	parsed := kong.Parse(&c, kong.Name("azq"), kong.Vars{"namespace": azq.DefaultNamespace}, kong.UsageOnError(),
		kong.Description("Operates queues of an Azure Storage account."), kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	client, err := c.open(ctx)
	if err == nil {
		err = parsed.Run(&session{ctx, client, c.JSON})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "azq: %s\n", azstore.Brief(err))
		os.Exit(1)
	}
}

func (c *command) open(ctx context.Context) (*azq.Client, error) {
	if c.ConnectionString == "" && c.Account == "" {
		return nil, errors.New("which account? Set AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_ACCOUNT, or give a flag")
	}
	flags := map[string]string{ // which have the variables, too
		"AZURE_STORAGE_CONNECTION_STRING": c.ConnectionString, "AZURE_STORAGE_ACCOUNT": c.Account,
		"AZURE_STORAGE_ENDPOINT_SUFFIX": c.EndpointSuffix, "AZQ_PREFIX": c.Prefix,
		"AZQ_RETRY_MAX": "2", // a person waits
	}
	config, err := azstore.ConfigFromEnv(func(name string) string { return cmp.Or(flags[name], os.Getenv(name)) }, "AZQ")
	if err != nil {
		return nil, err
	}
	account, err := azstore.Open(config)
	if err != nil {
		return nil, err
	}
	return azq.Discover(ctx, account, c.Send.Namespace)
}

type session struct {
	ctx    context.Context
	client *azq.Client
	json   bool
}

// show prints items as JSON, or each as a row of a table.
func show[T any](s *session, items []T, header string, row func(T) []string) error {
	if s.json {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"items": append([]T{}, items...)})
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, header)
	for _, item := range items {
		cells := row(item)
		for i, cell := range cells {
			cells[i] = cmp.Or(printable(cell), "-")
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// printable is the beginning of a text, without what a terminal would take for a command:
// anyone who may send a message chooses it.
func printable(text string) string {
	shown := []rune(text)
	for i, r := range shown {
		if !unicode.IsPrint(r) {
			shown[i] = ' '
		}
	}
	return string(shown[:min(len(shown), 100)])
}

// told tells people what was done, unless err says that it was not.
func told(err error, done string) error {
	if err == nil {
		fmt.Fprintln(os.Stderr, printable(done))
	}
	return err
}

type queues struct{}

func (queues) Run(s *session) error {
	found, err := azqops.Queues(s.ctx, s.client)
	if err != nil {
		return err
	}
	return show(s, found, "QUEUE\tMESSAGES\tVISIBILITY\tPAUSED", func(q azqops.Queue) []string {
		visibility := time.Duration(q.VisibilitySeconds * float64(time.Second)).String()
		return []string{q.Name, fmt.Sprint(q.Length), strings.TrimPrefix(visibility, "0s"), fmt.Sprint(q.Paused)}
	})
}

type peek struct {
	Queue string `arg:""`
	Limit int    `short:"n" default:"32" help:"At most this many, up to 32."`
}

func (c peek) Run(s *session) error {
	seen, err := azqops.Peek(s.ctx, s.client, c.Queue, c.Limit)
	if err != nil {
		return err
	}
	return show(s, seen, "MESSAGE\tSENT\tDELIVERED\tTYPE\tSUBJECT\tDATA", func(m azqops.Message) []string {
		row := []string{m.ID, m.InsertedAt.UTC().Format(time.RFC3339), fmt.Sprint(m.DequeueCount)}
		if m.Error != "" {
			return append(row, "", "", m.Error)
		}
		return append(row, m.Type, m.Subject, string(m.Data))
	})
}

type poison struct {
	Limit int `short:"n" default:"1000" help:"At most this many."`
}

func (c poison) Run(s *session) error {
	var all []azq.Poisoned
	for token, more := "", true; more && len(all) < c.Limit; more = token != "" {
		page, next, err := s.client.ListPoison(s.ctx, c.Limit-len(all), token)
		if err != nil {
			return err
		}
		all, token = append(all, page...), next
	}
	return show(s, all, "ID\tSINCE\tKIND\tSUBJECT\tFAILURES\tREASON", func(p azq.Poisoned) []string {
		return []string{p.ID, p.PoisonedAt.UTC().Format(time.RFC3339), p.Kind, p.Subject, fmt.Sprint(p.Failures), p.Reason}
	})
}

type redrive struct {
	IDs []string `arg:"" name:"id" help:"As azq poison shows them."`
}

func (c redrive) Run(s *session) (err error) {
	for _, id := range c.IDs {
		_, failed := s.client.Redrive(s.ctx, id)
		err = errors.Join(err, told(failed, "sent again: "+id))
	}
	return err
}

type onQueue struct {
	Queue string `arg:""`
}

func (c onQueue) do(s *session, act func(*azq.Queue, context.Context) error, done string) error {
	q, err := s.client.Find(c.Queue)
	if err != nil {
		return err
	}
	return told(act(q, s.ctx), c.Queue+": "+done)
}

type pause struct{ onQueue }

func (c pause) Run(s *session) error {
	return c.do(s, (*azq.Queue).Pause, "paused, for workers when they next read it, within 15 s")
}

type resume struct{ onQueue }

func (c resume) Run(s *session) error { return c.do(s, (*azq.Queue).Resume, "resumed") }

type visibility struct {
	onQueue
	Timeout time.Duration `arg:"" help:"1s to 168h; 0s is what the program declares."`
}

func (c visibility) Run(s *session) error {
	set := func(q *azq.Queue, _ context.Context) error { return q.SetVisibility(s.ctx, c.Timeout) }
	return c.do(s, set, "visibility is set")
}

type empty struct {
	Queues []string `arg:"" name:"queue" help:"With its lanes."`
	Yes    bool     `help:"Do not ask."`
}

func (c empty) Run(s *session) (err error) {
	if !c.Yes {
		fmt.Fprintf(os.Stderr, "Remove every message of %s, and of their lanes, for good? [y/N] ", strings.Join(c.Queues, ", "))
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n') // no answer is none
		if !strings.EqualFold(strings.TrimSpace(line), "y") {
			return errors.New("nothing was removed; --yes does not ask")
		}
	}
	for _, name := range c.Queues {
		err = errors.Join(err, onQueue{name}.do(s, (*azq.Queue).Clear, "empty"))
	}
	return err
}

type send struct {
	onQueue
	Kind      string        `arg:"" help:"Names the handler."`
	Data      string        `default:"null" placeholder:"JSON" help:"For the handler."`
	ID        string        `help:"The same for the same work; drawn at random by default."`
	Subject   string        `help:"What the work is about."`
	Namespace string        `default:"${namespace}" help:"Of the program that declares the queue."`
	After     time.Duration `help:"Hide the item at first, up to 168h."`
}

func (c send) Run(s *session) error {
	id, err := azqops.Send(s.ctx, s.client, c.Queue, azqops.NewItem{
		Kind: c.Kind, ID: c.ID, Subject: c.Subject, Data: []byte(c.Data), DelaySeconds: int(math.Ceil(c.After.Seconds())),
	})
	if err == nil {
		fmt.Println(id)
	}
	return err
}
