// Package progress shows how far a command is: a moving bar in a terminal, a line
// per quarter elsewhere.
package progress

import (
	"fmt"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Bar shows how much of something is done. It is for one goroutine.
type Bar struct {
	moving *progressbar.ProgressBar // nil when the output is not a terminal
	name   string
	total  int64
	shown  int64 // the last quarter that was printed
	done   int64
}

// New shows name and how much of total is done; with bytes it shows a rate.
func New(name string, total int64, bytes bool) *Bar {
	b := &Bar{name: name, total: max(total, 1), shown: -1}
	if term.IsTerminal(int(os.Stdout.Fd())) {
		b.moving = progressbar.NewOptions64(b.total,
			progressbar.OptionSetWriter(os.Stdout),
			progressbar.OptionSetDescription(fmt.Sprintf("%-10s", name)),
			progressbar.OptionSetWidth(32),
			progressbar.OptionShowBytes(bytes),
			progressbar.OptionSetPredictTime(bytes),
			progressbar.OptionSetRenderBlankState(true),
		)
	}
	return b
}

// Write moves the bar on by so many bytes.
func (b *Bar) Write(p []byte) (int, error) {
	b.To(b.done + int64(len(p)))
	return len(p), nil
}

// To moves the bar.
func (b *Bar) To(done int64) {
	b.done = done
	if b.moving != nil {
		_ = b.moving.Set64(min(done, b.total))
		return
	}
	if quarter := 4 * done / b.total; quarter > b.shown {
		b.shown = quarter
		fmt.Printf("%-10s %3d %%\n", b.name, 100*done/b.total)
	}
}

// Say prints a line above the bar.
func (b *Bar) Say(format string, args ...any) {
	if b.moving != nil {
		_ = b.moving.Clear()
	}
	fmt.Printf(format+"\n", args...)
	if b.moving != nil {
		_ = b.moving.RenderBlank()
	}
}

// End leaves the bar where it is and starts a new line.
func (b *Bar) End() {
	if b.moving != nil {
		_ = b.moving.Exit()
		fmt.Println()
	}
}
