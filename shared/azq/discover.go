package azq

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/shared/azstore"
)

// Discover returns a declaration for every queue of the account's prefix, in order, for programs
// that operate queues which others declare. The account says what the queues are: a queue
// "mail-1" without a poison queue of its own is a lane of "mail" if that has one. It does
// not say what is in them or who works on them: kinds and pools are empty, and where no
// timeout was published [Spec] has the default.
func Discover(ctx context.Context, a *azstore.Account) ([]Spec, error) {
	specs := []Spec{} // not nil, which would mean a queue "default"
	there, err := (&queues{account: a}).List(ctx)
	if err != nil {
		return nil, err
	}
	exists := func(base string) bool { return slices.Contains(there, a.Name(base)) }
	slices.Sort(there) // a base queue comes before its lanes
	for _, name := range there {
		spec := Spec{Name: strings.TrimPrefix(name, a.Prefix())}
		if base, isPoison := strings.CutSuffix(spec.Name, PoisonName("")); isPoison && exists(base) {
			continue
		}
		lane := laneOf.FindStringSubmatch(spec.Name)
		if lane != nil && exists(lane[1]) && exists(PoisonName(lane[1])) && !exists(PoisonName(spec.Name)) {
			spec.base, spec.lane = lane[1], int(lane[2][0]-'0')
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// laneOf splits what [LaneName] makes.
var laneOf = regexp.MustCompile(`^(.+)-([1-9])$`)
