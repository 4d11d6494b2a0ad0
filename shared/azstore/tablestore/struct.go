package tablestore

import (
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"reflect"
	"time"
)

// Props returns the exported fields of a struct as properties of the same names, or of the
// name in a tag such as `row:"Version"`. Texts, numbers, booleans, times and bytes stay what
// they are; all else is JSON. Fields with the tag `row:"-"` and zero values are left out.
func Props(row any) map[string]any {
	props := map[string]any{}
	for name, field := range fieldsOf(reflect.ValueOf(row)) {
		if !field.IsZero() {
			props[name] = valueOf(field)
		}
	}
	return props
}

// Struct reads properties into the fields of a struct, as [Props] has written them. A field
// whose property is missing stays as it is. Errors are those of JSON and Err.
func (e Entity) Struct(dst any) error {
	var errs []error
	for name, field := range fieldsOf(reflect.ValueOf(dst).Elem()) {
		if e.Props[name] != nil {
			errs = append(errs, e.setField(name, field))
		}
	}
	return errors.Join(append(errs, e.Err())...)
}

func fieldsOf(row reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for _, f := range reflect.VisibleFields(row.Type()) {
			name := cmp.Or(f.Tag.Get("row"), f.Name)
			if f.IsExported() && !f.Anonymous && name != "-" && !yield(name, row.FieldByIndex(f.Index)) {
				return
			}
		}
	}
}

// valueOf is a field as a property. What JSON cannot write is an error in its place, which
// checkEntity returns.
func valueOf(field reflect.Value) any {
	switch v := field.Interface().(type) {
	case time.Time, []byte:
		return v
	}
	switch field.Kind() {
	case reflect.String:
		return field.String()
	case reflect.Bool:
		return field.Bool()
	case reflect.Float64:
		return field.Float()
	case reflect.Int64:
		return field.Int()
	case reflect.Int:
		if n := field.Int(); n < math.MinInt32 || n > math.MaxInt32 {
			return n
		}
		return int32(field.Int())
	}
	text, err := json.Marshal(field.Interface())
	if err != nil {
		return err
	}
	return string(text)
}

// setField undoes valueOf. A property of another type is left to Err.
func (e Entity) setField(name string, field reflect.Value) error {
	switch dst := field.Addr().Interface().(type) {
	case *time.Time:
		*dst = e.Time(name)
		return nil
	case *[]byte:
		*dst = e.Bytes(name)
		return nil
	}
	switch field.Kind() {
	case reflect.String:
		field.SetString(e.String(name))
	case reflect.Bool:
		field.SetBool(e.Bool(name))
	case reflect.Float64:
		field.SetFloat(e.Float(name))
	case reflect.Int, reflect.Int64:
		field.SetInt(e.Int64(name))
	default:
		return e.JSON(name, field.Addr().Interface())
	}
	return nil
}
