package early

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/shared/sourceparts"
)

// versionsOf says in a few bytes which parts of an upload were read, and in which versions: a
// bit for each number, in base 62, and a hash of their ETags. Empty when nothing was read.
func versionsOf(epoch string, etags map[int]string) string {
	if len(etags) == 0 {
		return ""
	}
	var numbers big.Int
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%q\n", epoch)
	for _, n := range slices.Sorted(maps.Keys(etags)) {
		numbers.SetBit(&numbers, n, 1)
		_, _ = fmt.Fprintf(sum, "%d %q\n", n, etags[n])
	}
	return fmt.Sprintf("%s %x", numbers.Text(big.MaxBase), sum.Sum(nil)[:16])
}

// matches reports whether a manifest names the versions that were read.
func matches(read string, m sourceparts.Manifest) bool {
	var numbers big.Int
	bits, _, _ := strings.Cut(read, " ")
	if _, ok := numbers.SetString(bits, big.MaxBase); !ok || numbers.Sign() < 0 || numbers.BitLen() > len(m.Parts) {
		return false
	}
	etags := map[int]string{}
	for n := range numbers.BitLen() {
		if numbers.Bit(n) == 1 {
			etags[n] = m.Parts[n].ETag
		}
	}
	return read == versionsOf(m.Epoch, etags)
}
