package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cutroom/cutroom/shared/azstore/azurite"
)

// startAzurite starts the emulator on the ports of the options, or on free ones,
// which a restart takes again: the roles know them.
func (s *Stack) startAzurite(ctx context.Context) error {
	if s.emuLog == nil {
		log, err := openLog(s.dir, Azurite)
		if err != nil {
			return err
		}
		s.emuLog = log
	}
	s.Say("starting Azurite")
	var server *azurite.Server
	for attempt := 1; ; attempt++ {
		o := azurite.Options{
			Dir: filepath.Join(s.dir, dataDir), InMemory: s.options.InMemory, Log: s.emuLog,
			BlobPort: s.options.BlobPort, QueuePort: s.options.QueuePort, TablePort: s.options.TablePort,
		}
		for _, port := range []*int{&o.BlobPort, &o.QueuePort, &o.TablePort} {
			if *port == 0 {
				addr, err := freeAddr()
				if err != nil {
					return err
				}
				*port = int(addr.Port())
			}
		}
		err := onLastingThread(func() error {
			var err error
			server, err = azurite.Start(ctx, o)
			return err
		})
		if err == nil {
			break
		}
		fixed := s.options.BlobPort != 0 && s.options.QueuePort != 0 && s.options.TablePort != 0
		if fixed || attempt == 5 || ctx.Err() != nil || errors.Is(err, azurite.ErrNotInstalled) {
			return fmt.Errorf("%w\n%s", err, tail(LogPath(s.dir, Azurite), 15))
		}
	}
	s.mu.Lock()
	first := s.azurite == nil
	s.azurite = server
	s.mu.Unlock()
	s.options.BlobPort, s.options.QueuePort, s.options.TablePort = server.BlobPort, server.QueuePort, server.TablePort
	if err := writePID(s.dir, Azurite, server.PID()); err != nil {
		return err
	}
	s.Say("Azurite is ready on ports %d, %d, %d (pid %d)", server.BlobPort, server.QueuePort, server.TablePort, server.PID())
	if first && s.options.Supervise {
		s.watchers.Go(s.superviseAzurite)
	}
	return nil
}

func (s *Stack) stopAzurite() error {
	s.mu.Lock()
	server := s.azurite
	s.mu.Unlock()
	var errs []error
	if server != nil {
		errs = append(errs, server.Stop())
		_ = os.Remove(pidPath(s.dir, Azurite))
	}
	if s.emuLog != nil {
		errs = append(errs, s.emuLog.Close())
	}
	return errors.Join(errs...)
}
