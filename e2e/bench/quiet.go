package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cutroom/cutroom/e2e/load"
	"github.com/cutroom/cutroom/e2e/stack"
)

// awaitQuiet waits until no worker holds a message: what one measurement left behind must
// not run into the next. It asks the workers' own metrics, which costs no request to storage.
func awaitQuiet(ctx context.Context, s *stack.Stack) error {
	for quiet := 0; quiet < 3; { // three looks in a row: one message may promise the next
		busy, err := anyBusy(ctx, s)
		if err != nil {
			return fmt.Errorf("wait for the workers to have nothing to do: %w", err)
		}
		if quiet++; busy {
			quiet = 0
		}
		if load.Pause(ctx, 200*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("wait for the workers to have nothing to do: %w", ctx.Err())
		}
	}
	return nil
}

func anyBusy(ctx context.Context, s *stack.Stack) (bool, error) {
	for _, name := range s.Workers() {
		if s.Pid(name) == 0 {
			continue
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.AdminURL(name)+"/metrics", nil)
		if err != nil {
			return false, err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false, err
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			return false, err
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "cutroom_pool_busy{") && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
				return true, nil
			}
		}
	}
	return false, nil
}
