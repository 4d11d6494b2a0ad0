package scenes

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cutroom/cutroom/shared/scene"
)

// Printer shows events in a terminal, at the pace of a reader.
type Printer struct {
	Out  io.Writer
	Fast bool // without pauses
}

// width of a line, in characters.
const width = 100

// Begin prints what is said before a scene plays.
func (p Printer) Begin(sc scene.Scene) {
	fmt.Fprintf(p.Out, "%s\n%s\n%s\n", sc.Title, strings.Repeat("=", utf8.RuneCountInString(sc.Title)), wrap(sc.Learn, ""))
	fmt.Fprintf(p.Out, "Rows %s of the papers, docs/%s\n\n", strings.Join(sc.Rows, ", "), sc.Page)
	for _, q := range sc.Questions {
		fmt.Fprintf(p.Out, "  ? %s\n", q.Text)
		for _, o := range q.Options {
			fmt.Fprintf(p.Out, "      %-20s %s\n", q.Name+"="+o.Value, o.Text)
		}
	}
	if len(sc.Questions) > 0 {
		fmt.Fprintf(p.Out, "  Answer with ANSWERS=\"%s=%s …\", or watch how others answered.\n\n", sc.Questions[0].Name, sc.Questions[0].Options[0].Value)
	}
	p.pause(sc.Learn)
}

// Print shows one event and, unless Fast, waits as long as one needs to read it.
func (p Printer) Print(e Event) {
	switch e.Kind {
	case Step:
		fmt.Fprintf(p.Out, "\n▸ %s\n", wrap(e.Text, "  "))
	case Wire:
		fmt.Fprintf(p.Out, "%6.2fs  %s → %s: %s   ← %s\n", e.Seconds, e.From, e.To, e.Text, e.Reply)
		p.exchange(e.Wire)
	case Act:
		fmt.Fprintf(p.Out, "%6.2fs  %s %s\n", e.Seconds, e.From, e.Text)
	case Note:
		fmt.Fprintf(p.Out, "  = %s\n", wrap(e.Text, "    "))
	case Claim:
		fmt.Fprintf(p.Out, "  %s %s\n", map[bool]string{true: "✓", false: "✗ FALSE:"}[e.Holds], wrap(e.Text, "    "))
	case End:
		fmt.Fprintf(p.Out, "\n%s\n", wrap(e.Text, ""))
		return
	}
	p.pause(e.Text)
}

func (p Printer) exchange(x *Exchange) {
	line := func(format string, args ...any) { fmt.Fprintf(p.Out, "           │ "+format+"\n", args...) }
	line("%s %s", x.Method, x.Target)
	part := func(headers []Header, body string) {
		for _, h := range headers {
			line("%s: %s", h.Name, h.Value)
		}
		for text := range strings.Lines(body) {
			if x.Inside != "" && strings.HasPrefix(text, "<MessageText>") {
				text = "<MessageText>…</MessageText>" // what is in it is printed below
			}
			line("  %s", cut(strings.TrimRight(text, "\n")))
		}
	}
	part(x.Sent, x.Body)
	if x.Status != 0 {
		line("← %d", x.Status)
	} else {
		line("← no answer")
	}
	part(x.Received, x.Answer)
	if x.Inside != "" {
		line("the message's base64 is: %s", cut(x.Inside))
	}
}

// cut keeps a line readable; the page shows all of it.
func cut(text string) string {
	if runes := []rune(text); len(runes) > 2*width {
		return string(runes[:2*width]) + "…"
	}
	return text
}

// pause is a third of a second and 150 ms for each word.
func (p Printer) pause(text string) {
	if !p.Fast {
		time.Sleep(time.Second/3 + time.Duration(len(strings.Fields(text)))*150*time.Millisecond)
	}
}

// wrap breaks a text into lines; all but the first begin with indent.
func wrap(text, indent string) string {
	var out strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			out.WriteString("\n" + indent)
			column = 0
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += n
	}
	return out.String()
}
