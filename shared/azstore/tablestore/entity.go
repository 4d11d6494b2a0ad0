package tablestore

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Entity is one row. The values of Props are string, int32, int64, int,
// float64, bool, time.Time or []byte; a nil value is left out.
//
// An int comes back as int64, and a float64 without a fraction may come back as int32. The
// getters convert between numbers.
type Entity struct {
	PartitionKey string
	RowKey       string
	ETag         string         // version, set by reads
	Timestamp    time.Time      // of the last write, by this machine's clock, set by reads
	Props        map[string]any // without keys, ETag and Timestamp

	writeID string // of the write that made this version
	mistake *error // what Err returns; nil in a row that was not read
}

const (
	opIDProperty = "OpId" // the property of the write id: see the package comment
	opIDUnits    = 26     // of a text by rand.Text
)

// Err returns the first mistake that a getter met: a property of another type than it was
// asked for. Decode, Into and Query.Read look at it.
func (e Entity) Err() error {
	if e.mistake == nil {
		return nil
	}
	return *e.mistake
}

// property returns a property, or the zero value when it is missing or has another type.
func property[T any](e Entity, name string) T {
	value, ok := e.Props[name].(T)
	if !ok {
		e.mistaken(name, value)
	}
	return value
}

func (e Entity) mistaken(name string, wanted any) {
	if there := e.Props[name]; there != nil && e.mistake != nil && *e.mistake == nil {
		*e.mistake = fmt.Errorf("property %s has type %T, want %T", name, there, wanted)
	}
}

// String returns a property, or "".
func (e Entity) String(name string) string { return property[string](e, name) }

// Int64 returns a number, or 0.
func (e Entity) Int64(name string) int64 {
	switch v := e.Props[name].(type) {
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case int64:
		return v
	case float64:
		return int64(v)
	}
	e.mistaken(name, int64(0))
	return 0
}

// Int returns a number, or 0.
func (e Entity) Int(name string) int { return int(e.Int64(name)) }

// Float returns a number, or 0.
func (e Entity) Float(name string) float64 {
	if v, ok := e.Props[name].(float64); ok {
		return v
	}
	return float64(e.Int64(name))
}

// Bool returns a property, or false.
func (e Entity) Bool(name string) bool { return property[bool](e, name) }

// Time returns a property in UTC, or the zero time.
func (e Entity) Time(name string) time.Time { return property[time.Time](e, name) }

// Bytes returns a property, or nil.
func (e Entity) Bytes(name string) []byte { return property[[]byte](e, name) }

// JSON decodes a string property into dst. A missing or empty one leaves dst as it is.
func (e Entity) JSON(name string, dst any) error {
	text := e.String(name)
	if text == "" {
		return e.Err()
	}
	if err := json.Unmarshal([]byte(text), dst); err != nil {
		return fmt.Errorf("property %s of row %q/%q: %w", name, e.PartitionKey, e.RowKey, err)
	}
	return nil
}

// timeFormat keeps seven decimals, the resolution of the service.
const timeFormat = "2006-01-02T15:04:05.0000000Z"

const typeSuffix = "@odata.type"

// encode checks the limits and writes the row as JSON with type annotations.
func encode(e Entity, writeID string) ([]byte, error) {
	if err := checkEntity(e); err != nil {
		return nil, err
	}
	row := make(map[string]any, 2*len(e.Props)+3)
	for name, value := range e.Props {
		if value == nil {
			continue
		}
		text, edm := wire(value)
		row[name] = text
		if edm != "" {
			row[name+typeSuffix] = edm
		}
	}
	row["PartitionKey"], row["RowKey"] = e.PartitionKey, e.RowKey
	row[opIDProperty] = writeID
	return json.Marshal(row)
}

// wire returns the JSON value of a property and its EDM type, which may be left
// out for strings, booleans and 32-bit integers. checkEntity has seen the type.
func wire(value any) (any, string) {
	switch v := value.(type) {
	case int:
		return strconv.Itoa(v), "Edm.Int64"
	case int64:
		return strconv.FormatInt(v, 10), "Edm.Int64"
	case float64:
		if text := fmt.Sprint(v); math.IsNaN(v) || math.IsInf(v, 0) {
			return strings.TrimPrefix(strings.Replace(text, "Inf", "Infinity", 1), "+"), "Edm.Double"
		}
		return v, "Edm.Double"
	case time.Time:
		return v.UTC().Format(timeFormat), "Edm.DateTime"
	case []byte:
		return base64.StdEncoding.EncodeToString(v), "Edm.Binary"
	default:
		return v, ""
	}
}

// decode reads a row as the SDK returns it. With an error it still has keys and ETag, if any.
func (t *Table) decode(text []byte) (Entity, error) {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var row map[string]any
	if err := decoder.Decode(&row); err != nil {
		return Entity{}, fmt.Errorf("decode row: %w", err)
	}
	e := Entity{Props: make(map[string]any, len(row)), mistake: new(error)}
	e.PartitionKey, _ = row["PartitionKey"].(string)
	e.RowKey, _ = row["RowKey"].(string)
	e.ETag, _ = row["odata.etag"].(string)
	for name, raw := range row {
		if raw == nil || strings.HasPrefix(name, "odata.") || strings.HasSuffix(name, typeSuffix) {
			continue
		}
		edm, _ := row[name+typeSuffix].(string)
		value, err := unwire(raw, edm)
		if err != nil {
			return e, fmt.Errorf("decode property %s: %w", name, err)
		}
		switch name {
		case "PartitionKey", "RowKey":
		case "Timestamp":
			text, _ := raw.(string)
			at, _ := time.Parse(time.RFC3339Nano, text) // a bad one reads as zero
			e.Timestamp = t.account.LocalTime(at)
		case opIDProperty:
			e.writeID, _ = value.(string)
		default:
			e.Props[name] = value
		}
	}
	return e, nil
}

func unwire(raw any, edm string) (any, error) {
	text, isText := raw.(string)
	switch {
	case edm == "Edm.Int64" && isText:
		return strconv.ParseInt(text, 10, 64)
	case edm == "Edm.DateTime" && isText:
		t, err := time.Parse(time.RFC3339Nano, text)
		return t.UTC(), err
	case edm == "Edm.Binary" && isText:
		return base64.StdEncoding.DecodeString(text)
	case edm == "Edm.Double" && isText:
		return strconv.ParseFloat(text, 64)
	}
	number, isNumber := raw.(json.Number)
	if !isNumber {
		return raw, nil
	}
	if edm == "Edm.Double" {
		return number.Float64()
	}
	if n, err := number.Int64(); err == nil {
		if n >= math.MinInt32 && n <= math.MaxInt32 && edm != "Edm.Int64" {
			return int32(n), nil
		}
		return n, nil
	}
	return number.Float64()
}
