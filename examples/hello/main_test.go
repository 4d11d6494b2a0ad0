package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// The test binary is the program, too.
func TestMain(m *testing.M) {
	if os.Getenv("HELLO_MAIN") != "" {
		main()
	}
	azuritetest.Main(m)
}

func TestTheLetterIsSentAndHandled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	account := azuritetest.Account(t)
	hello := exec.CommandContext(ctx, os.Args[0])
	hello.Env = append(os.Environ(), "HELLO_MAIN=1", "HELLO_PREFIX="+account.Prefix(),
		"AZURE_STORAGE_CONNECTION_STRING="+azuritetest.ConnectionString(t))
	hello.Stderr = os.Stderr
	out, err := hello.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hello.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "Dear Ada\n" {
		t.Errorf("it says %q, %v", line, err)
	}
	azqtest.WaitEmpty(t, azq.OpenQueue(account, azq.Spec{Name: "default"}))
	_ = hello.Process.Kill() // it runs until then
	_ = hello.Wait()
}
