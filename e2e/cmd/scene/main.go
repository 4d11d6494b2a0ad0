// Command scene plays a scene in the terminal: `make scene NAME=stale-receipt`.
// Without a name it lists them. ANSWERS="knows=subject together=no busy=few" answers the
// questions that a scene asks. It uses the account that
// AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_ACCOUNT names; without either it
// starts an emulator of its own. With SCENE_FAST=1 it makes no pauses for reading. It
// ends with 0 when all that was told was true.
//
// Next: e2e/scenes/doc.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cutroom/cutroom/e2e/command"
	"github.com/cutroom/cutroom/e2e/scenes"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/scene"
)

func main() {
	command.Main("scene", func(ctx context.Context) error { return run(ctx, os.Stdout, os.Getenv) })
}

func run(ctx context.Context, out io.Writer, getenv func(string) string) (err error) {
	name := getenv("NAME")
	if name == "" {
		list(out)
		return nil
	}
	sc, known := scene.Find(name)
	if !known {
		list(out)
		return fmt.Errorf("%q: %w", name, scenes.ErrUnknown)
	}
	answers := map[string]string{}
	for _, pair := range strings.Fields(getenv("ANSWERS")) {
		question, answer, _ := strings.Cut(pair, "=")
		answers[question] = answer
	}
	if err := scenes.CheckAnswers(sc, answers); err != nil {
		return err
	}
	cfg, err := azstore.ConfigFromEnv(getenv, "CUTROOM")
	if err != nil {
		return err
	}
	if getenv("AZURE_STORAGE_CONNECTION_STRING") == "" && getenv("AZURE_STORAGE_ACCOUNT") == "" {
		server, startErr := azurite.Start(ctx, azurite.Options{InMemory: true})
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, server.Stop()) }()
		cfg.ConnectionString = server.ConnectionString()
	}
	return play(ctx, scenes.Printer{Out: out, Fast: getenv("SCENE_FAST") == "1"}, cfg, sc, answers)
}

// play prints at the reader's pace while the scene plays at its own.
func play(ctx context.Context, p scenes.Printer, cfg azstore.Config, sc scene.Scene, answers map[string]string) error {
	p.Begin(sc)
	events := make(chan scenes.Event, 1000) // more than any scene tells
	var err error
	go func() {
		defer close(events)
		err = scenes.Run(ctx, cfg, sc.Name, answers, func(e scenes.Event) { events <- e })
	}()
	for e := range events {
		p.Fast = p.Fast || ctx.Err() != nil
		p.Print(e)
	}
	return err
}

func list(out io.Writer) {
	fmt.Fprintln(out, "make scene NAME=… plays one of:")
	for _, sc := range scene.All() {
		fmt.Fprintf(out, "  %-22s %-14s %s\n", sc.Name, strings.Join(sc.Rows, " "), sc.Title)
	}
}
