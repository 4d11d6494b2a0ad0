package journey

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/cutroom/cutroom/e2e/client"
)

// Register brings a start list as CSV (paper row T7). Repeating it is safe.
func (u *User) Register(ctx context.Context, event string, csv io.Reader) (client.ImportReport, error) {
	return check[client.ImportReport](u.api.ImportRegistrationsWithBodyWithResponse(ctx, event, "text/csv", csv)).as(http.StatusOK, "register for %q", event)
}

// Runners returns a page of who runs, and what it cost.
func (u *User) Runners(ctx context.Context, event string, query client.ListRegistrationsParams) (client.RegistrationList, error) {
	return check[client.RegistrationList](u.api.ListRegistrationsWithResponse(ctx, event, &query)).as(http.StatusOK, "list the runners of %q", event)
}

// StartList writes a list of n made-up runners as CSV, with the bibs from 1: the
// same list every time.
func StartList(w io.Writer, n int) error {
	if _, err := io.WriteString(w, "bib,name,sex,age\n"); err != nil {
		return fmt.Errorf("write a start list: %w", err)
	}
	for bib := 1; bib <= n; bib++ {
		// 7919 is prime, so that neither name nor age follows from the bib at sight.
		mixed := bib * 7919
		_, err := fmt.Fprintf(w, "%d,%s %d,%s,%d\n", bib, givenNames[mixed%len(givenNames)], bib, sexes[mixed%len(sexes)], 18+mixed%63)
		if err != nil {
			return fmt.Errorf("write a start list: %w", err)
		}
	}
	return nil
}

var (
	givenNames = []string{
		"Ada", "Amir", "Beatriz", "Björn", "Chen", "Dmitri", "Élodie", "Fatima", "Giulia", "Hana", "Ivan", "John",
		"Kofi", "Lea", "Mary", "Nadia", "Oluwaseun", "Priya", "Quentin", "Rosa", "Søren", "Tariq", "Yuki", "Zoë",
	}
	sexes = []string{"F", "M", "F", "M", "X"}
)
