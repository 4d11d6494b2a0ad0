package tablestore

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits of the service:
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model
// https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions
const (
	MaxBatchOps    = 100     // operations in one transaction
	maxBatchBytes  = 4 << 20 // bytes of one transaction's request
	maxEntityBytes = 1 << 20 // bytes of one row
	maxStringUnits = 32768   // UTF-16 units of one string property: 64 KiB
	maxBinaryBytes = 64 << 10
	MaxKeyUnits    = 512 // UTF-16 units of a PartitionKey or RowKey: 1 KiB (paper row T1)
	maxProps       = 252 // properties besides the keys and Timestamp; OpId is one of them
	maxPageSize    = 1000
)

// ErrLimit says that a request would break a limit of the service. Nothing was sent.
var ErrLimit = errors.New("over a limit of the table service")

func limitf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrLimit, fmt.Sprintf(format, args...))
}

// checkKeys refuses keys that Azure refuses or the SDK would change. Keys that are
// composed with EscapeKey always pass.
func checkKeys(pk, rk string) error {
	return errors.Join(checkKey("PartitionKey", pk), checkKey("RowKey", rk))
}

func checkKey(name, key string) error {
	if key == "" {
		return limitf("%s is empty: the service takes it, but the SDK cannot address it", name)
	}
	if strings.ContainsFunc(key, forbiddenInKey) {
		return limitf("%s %q holds characters that keys must not hold: compose keys with EscapeKey", name, key)
	}
	if !utf8.ValidString(key) {
		return limitf("%s %q is not UTF-8", name, key)
	}
	if units := utf16Len(key); units > MaxKeyUnits {
		return limitf("%s has %d characters, at most %d", name, units, MaxKeyUnits)
	}
	return nil
}

// checkEntity checks keys, names, types and sizes of a row.
func checkEntity(e Entity) error {
	if err := checkKeys(e.PartitionKey, e.RowKey); err != nil {
		return err
	}
	if len(e.Props)+1 > maxProps {
		return limitf("%d properties, at most %d", len(e.Props), maxProps-1)
	}
	// The service's own formula for the size of a row.
	size := 4 + 2*(utf16Len(e.PartitionKey)+utf16Len(e.RowKey)) + 8 + 2*len(opIDProperty) + 4 + 2*opIDUnits
	for name, value := range e.Props {
		if slices.Contains([]string{"PartitionKey", "RowKey", "Timestamp", opIDProperty}, name) {
			return limitf("property name %s is reserved", name)
		}
		if !propertyName.MatchString(name) {
			return limitf("property name %q: want 1 to 255 letters, digits and _, not starting with a digit", name)
		}
		n, err := valueSize(name, value)
		if err != nil {
			return err
		}
		size += 8 + 2*utf16Len(name) + n
	}
	if size > maxEntityBytes {
		return limitf("row has %d bytes, at most %d", size, maxEntityBytes)
	}
	return nil
}

// propertyName is a C# identifier.
var propertyName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,254}$`)

func valueSize(name string, value any) (int, error) {
	switch v := value.(type) {
	case nil:
		return 0, nil
	case string:
		units := utf16Len(v)
		if units > maxStringUnits {
			return 0, limitf("property %s has %d characters, at most %d", name, units, maxStringUnits)
		}
		if !utf8.ValidString(v) {
			return 0, limitf("property %s is not UTF-8", name)
		}
		return 4 + 2*units, nil
	case []byte:
		if len(v) > maxBinaryBytes {
			return 0, limitf("property %s has %d bytes, at most %d", name, len(v), maxBinaryBytes)
		}
		return 4 + len(v), nil
	case bool:
		return 1, nil
	case int32:
		return 4, nil
	case int, int64, float64:
		return 8, nil
	case time.Time:
		if v.UTC().Year() < 1601 {
			return 0, limitf("property %s: time %s is before 1601", name, v.Format(time.RFC3339))
		}
		return 8, nil
	case error: // of Props
		return 0, fmt.Errorf("encode property %s: %w", name, v)
	default:
		return 0, limitf("property %s has type %T: want string, int, int32, int64, float64, bool, time.Time or []byte", name, value)
	}
}

func utf16Len(s string) int { return len(utf16.Encode([]rune(s))) }
