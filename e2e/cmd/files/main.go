// Command files shows the core as a product: it starts Azurite and examples/files, uploads a
// file, waits until it is ready, and says what to do next. It stays until Ctrl-C; with
// DEMO_EXIT=1 it ends there. In a fork of the core alone it is `make demo`.
//
//	scripts/gorun files
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azurite"
)

// name is that of the product, as examples/files has it.
const name = "files"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	program := filepath.Join(".run", "bin", name)
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./examples/files")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the product: %w", err)
	}
	emulator, err := azurite.Start(ctx, azurite.Options{Dir: filepath.Join(".run", "azurite")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, emulator.Stop()) }()
	ctx, stop := context.WithCancel(ctx)
	address, ended, err := start(ctx, program, emulator.ConnectionString())
	defer func() { stop(); <-ended }()
	if err == nil {
		err = show(ctx, address)
	}
	if err != nil || os.Getenv("DEMO_EXIT") == "1" {
		return err
	}
	fmt.Println("stop it: Ctrl-C")
	select {
	case <-ctx.Done():
	case <-ended:
		err = errors.New("the product has ended: see .run/" + name + ".log")
	}
	return err
}

var listening = regexp.MustCompile(`listening address=(\S+)`)

// start returns the address of all files when the product listens; ended is closed when its
// process is gone.
func start(ctx context.Context, program, connection string) (address string, ended chan struct{}, err error) {
	ended = make(chan struct{})
	log, err := os.Create(filepath.Join(".run", name+".log"))
	if err != nil {
		close(ended)
		return "", ended, err
	}
	product := exec.CommandContext(ctx, program)
	product.Env = append(os.Environ(), "AZURE_STORAGE_CONNECTION_STRING="+connection)
	product.Cancel = func() error { return product.Process.Signal(syscall.SIGTERM) }
	said, err := product.StderrPipe()
	if err == nil {
		err = product.Start()
	}
	if err != nil {
		close(ended)
		return "", ended, fmt.Errorf("start the product: %w", err)
	}
	found := make(chan string, 1)
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			fmt.Fprintln(log, lines.Text())
			if match := listening.FindStringSubmatch(lines.Text()); match != nil {
				found <- match[1]
			}
		}
		_, _ = product.Wait(), log.Close()
	}()
	select {
	case address = <-found:
		return address, ended, nil
	case <-ended:
		return "", ended, errors.New("the product does not start: see .run/" + name + ".log")
	}
}

type file struct {
	ID, State string
	Facts     json.RawMessage
}

// show uploads a file and waits until it is ready.
func show(ctx context.Context, address string) error {
	path := os.Getenv("FILE")
	if path == "" {
		path = "README.md"
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var now file
	for end := time.Now().Add(2 * time.Minute); now.State != "ready"; time.Sleep(200 * time.Millisecond) {
		if now.ID == "" { // the product may still make its tables
			now, err = ask(ctx, http.MethodPost, address+"?name="+filepath.Base(path), content)
		} else {
			now, err = ask(ctx, http.MethodGet, address+"/"+now.ID, nil)
		}
		if ctx.Err() != nil || time.Now().After(end) || now.State == "failed" {
			return errors.Join(fmt.Errorf("%s is not ready but %q", path, now.State), err, ctx.Err())
		}
	}
	fmt.Printf("%s is ready: %s\n", path, now.Facts)
	for _, next := range [][2]string{
		{"look again", "curl -s " + address + "/" + now.ID},
		{"upload", "curl -s --data-binary @FILE '" + address + "?name=FILE'"},
		{"list", "curl -s " + address},
		{"delete", "curl -s -X DELETE " + address + "/" + now.ID},
		{"operate", "curl -s " + strings.TrimSuffix(address, "/files") + "/ops/queues    also /ops/poison, /ops/workers"},
		{"your steps", "examples/files/main.go"},
	} {
		fmt.Printf("%-12s%s\n", next[0]+":", next[1])
	}
	return nil
}

func ask(ctx context.Context, method, address string, body []byte) (now file, err error) {
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return now, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return now, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return now, fmt.Errorf("%s %s: %s", method, address, answer.Status)
	}
	return now, json.NewDecoder(answer.Body).Decode(&now)
}
