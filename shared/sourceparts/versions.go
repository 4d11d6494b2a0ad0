package sourceparts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Versions says in a few bytes which parts of an upload were read, and in which
// versions: runs of their numbers and a hash of their ETags, such as "0-3,17 5f0c…". Empty
// when nothing was read.
type Versions string

// VersionsOf writes down the ETags of parts that were read, by number.
func VersionsOf(epoch string, etags map[int]string) Versions {
	if len(etags) == 0 {
		return ""
	}
	numbers := make([]int, 0, len(etags))
	for n := range etags {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%q\n", epoch)
	var runs []string
	for i := 0; i < len(numbers); {
		first := i
		for i++; i < len(numbers) && numbers[i] == numbers[i-1]+1; i++ {
		}
		runs = append(runs, fmt.Sprintf("%d-%d", numbers[first], numbers[i-1]))
	}
	for _, n := range numbers {
		_, _ = fmt.Fprintf(sum, "%d %q\n", n, etags[n])
	}
	return Versions(strings.Join(runs, ",") + " " + hex.EncodeToString(sum.Sum(nil)[:16]))
}

// Match reports whether a manifest names the versions that were read.
func (v Versions) Match(m Manifest) bool {
	if v == "" {
		return true
	}
	runs, _, _ := strings.Cut(string(v), " ")
	etags := map[int]string{}
	for run := range strings.SplitSeq(runs, ",") {
		from, to, _ := strings.Cut(run, "-")
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || first < 0 || last >= len(m.Parts) {
			return false
		}
		for n := first; n <= last; n++ {
			etags[n] = m.Parts[n].ETag
		}
	}
	return v == VersionsOf(m.Epoch, etags)
}
