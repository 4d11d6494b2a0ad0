package azurite_test

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
)

func TestStrangersPortIsRefused(t *testing.T) {
	t.Parallel()
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Close() }()
	port := stranger.Addr().(*net.TCPAddr).Port
	s, err := azurite.Start(t.Context(), azurite.Options{QueuePort: port})
	if err == nil {
		_ = s.Stop()
	}
	if !errors.Is(err, azurite.ErrStranger) {
		t.Errorf("Start on a taken port: %v, want ErrStranger", err)
	} else if !strings.Contains(err.Error(), strconv.Itoa(port)) {
		t.Errorf("the error does not name port %d: %v", port, err)
	}
}

// Stop lets the emulator write what it holds, and a new one finds it.
func TestDataSurvivesStop(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts the storage emulator twice")
	}
	dir := t.TempDir()
	visit := func(do func(*azstore.Account)) {
		s, err := azurite.Start(t.Context(), azurite.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		a, err := azstore.Open(azstore.Config{ConnectionString: s.ConnectionString()})
		if err != nil {
			t.Fatal(err)
		}
		do(a)
		a.CloseIdle()
		for range 2 { // safe to repeat
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		}
		<-s.Exited()
	}
	visit(func(a *azstore.Account) {
		if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{"box"}, Queues: []string{"queue"}, Tables: []string{"rows"}}); err != nil {
			t.Fatal(err)
		}
	})
	visit(func(a *azstore.Account) {
		_, noContainer := a.Container("box").GetProperties(t.Context(), nil)
		_, noQueue := a.Queue("queue").GetProperties(t.Context(), nil)
		_, noRow := a.Table("rows").GetEntity(t.Context(), "p", "r", nil)
		if noContainer != nil || noQueue != nil || !azstore.HasCode(noRow, aztables.ResourceNotFound) {
			t.Errorf("after a restart: container %v, queue %v, table %v", noContainer, noQueue, noRow)
		}
	})
}

func TestNotInstalledSaysWhatToDo(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("AZURITE_JS", "")
	if _, err := azurite.Start(t.Context(), azurite.Options{}); !errors.Is(err, azurite.ErrNotInstalled) {
		t.Errorf("Start without an emulator: %v, want ErrNotInstalled", err)
	}
}
