package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// The work takes more than twice the visibility timeout, and a second slot is free.
func TestLongWorkRunsOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var got, want strings.Builder
	if err := run(ctx, azuritetest.Account(t), &got); err != nil {
		t.Fatal(err)
	}
	for page := range 14 {
		fmt.Fprintln(&want, "page", page+1)
	}
	fmt.Fprintln(&want, "Emma is printed, in delivery 1\ndone")
	if got.String() != want.String() {
		t.Errorf("printed\n%s\nwant\n%s", &got, &want)
	}
}
