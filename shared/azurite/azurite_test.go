package azurite_test

import (
	"errors"
	"net"
	"testing"

	"github.com/cutroom/cutroom/shared/azurite"
	"github.com/cutroom/cutroom/shared/ownport"
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
	if !errors.Is(err, ownport.ErrStranger) {
		t.Errorf("Start on a taken port: %v, want ErrStranger", err)
	}
}
