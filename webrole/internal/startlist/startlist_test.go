package startlist

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/charset"
	"github.com/cutroom/cutroom/shared/registrations"
)

// summary is a row as a line of text.
func summary(r registrations.Row) string {
	if r.Refused != nil {
		return fmt.Sprintf("%d %s %q", r.Line, r.Refused.Code, r.Given)
	}
	finish := ""
	if !r.FinishedAt.IsZero() {
		finish = " " + r.FinishedAt.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%d #%d %s %s %d%s", r.Line, r.Registration.Bib, r.Name, r.Sex, r.Age, finish)
}

func read(list iter.Seq2[registrations.Row, error]) (rows []string, err error) {
	for row, err := range list {
		if err != nil {
			return rows, err
		}
		rows = append(rows, summary(row))
	}
	return rows, nil
}

// csvOf reads a list whose language was not sent.
func csvOf(r io.Reader) iter.Seq2[registrations.Row, error] { return CSV(charset.NewReader(r)) }

func TestCSV(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2*maxRow)
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"plain":          {"bib,name,sex,age\n1234,John,M,55\n", []string{"2 #1234 John M 55"}},
		"no end":         {"bib,name,sex,age\n1234,John,M,55", []string{"2 #1234 John M 55"}},
		"Windows":        {"\uFEFFbib,name,sex,age\r\n1234,John,M,55\r\n\r\n", []string{"2 #1234 John M 55"}},
		"other order":    {"finishedAt,age, sex ,name,bib\n2011-11-06T14:03:05-05:00,55,M,John,01234\n,7,F,Ann,8\n", []string{"2 #1234 John M 55 2011-11-06T19:03:05Z", "3 #8 Ann F 7"}},
		"semicolons":     {"bib;name;sex;age\r\n1;Zoë Müller;F;30\r\n2;\"Smith, John; Jr.\";M;55\r\n;;;\r\n", []string{"2 #1 Zoë Müller F 30", "3 #2 Smith, John; Jr. M 55"}},
		"tabs":           {"bib\tname\tsex\tage\n1\tAnn;Lee\tF\t30\n", []string{"2 #1 Ann;Lee F 30"}},
		"header's case":  {"AGE;\"Sex\"; NAME ;Bib;FinishedAT\n30;F;Ann;1;2011-11-06T14:03:05Z\n", []string{"2 #1 Ann F 30 2011-11-06T14:03:05Z"}},
		"Windows-1252":   {"bib;name;sex;age\n1;Zo\xeb M\xfcller;F;30\n", []string{"2 #1 Zoë Müller F 30"}},
		"Windows-1250":   {"bib;name;sex;age\n1;Lech Wa\xb3\xeasa;M;30\n2;J\xf3zef Pi\xb3sudski;M;31\n", []string{"2 #1 Lech Wałęsa M 30", "3 #2 Józef Piłsudski M 31"}},
		"Windows-1251":   {"bib;name;sex;age\n1;\xc8\xe2\xe0\xed\xee\xe2 \xcf\xb8\xf2\xf0;M;30\n", []string{"2 #1 Иванов Пётр M 30"}},
		"UTF-16":         {"\xff\xfeb\x00i\x00b\x00\t\x00n\x00a\x00m\x00e\x00\t\x00s\x00e\x00x\x00\t\x00a\x00g\x00e\x00\n\x001\x00\t\x00Z\x00o\x00\xeb\x00\t\x00F\x00\t\x003\x00\n\x00", []string{"2 #1 Zoë F 3"}},
		"damaged UTF-8":  {"bib,name,sex,age\n1,Zoë,F,30\n2,Zoë,F,30\n3,Zoë,F,30\n4,Zoë,F,30\n5,Zo\xeb,F,30\n6,Zoë,F,30\n7,Zo\ufffd,F,30\n", []string{"2 #1 Zoë F 30", "3 #2 Zoë F 30", "4 #3 Zoë F 30", "5 #4 Zoë F 30", `6 invalid_row ""`, "7 #6 Zoë F 30", `8 invalid_row ""`}},
		"quotes":         {"bib,name,sex,age\n\"1\",\"O'Brien, \"\"Pat\"\"\",F,30\n", []string{`2 #1 O'Brien, "Pat" F 30`}},
		"header only":    {"bib,name,sex,age\n", nil},
		"broken lines":   {"bib,name,sex,age\n1,\"John,M,55\n2,Ann,F,30\n3,Jo\"hn,M,55\n4,Bea,F,31\n5,Cid,M\n6,Dee,F,32,x\n\n7,Eve,F,33\n", []string{`2 invalid_row ""`, "3 #2 Ann F 30", `4 invalid_row ""`, "5 #4 Bea F 31", `6 invalid_row ""`, `7 invalid_row ""`, "9 #7 Eve F 33"}},
		"a line of long": {"bib,name,sex,age\n1," + long + ",M,55\n2,Ann,F,30\n3," + long, []string{`2 invalid_row ""`, "3 #2 Ann F 30", `4 invalid_row ""`}},
		"no numbers":     {"bib,name,sex,age\n-1,A,M,1.5\n+1,B,M,0x1\n99999999999999999999,C,M, 7 \n", []string{"2 #-1 A M -1", "3 #-1 B M -1", "4 #-1 C M 7"}},
		"no time":        {"bib,name,sex,age,finishedAt\n1,A,M,20,14:03\n2\u202e,A,M,20,today\n", []string{`2 invalid_finish "1"`, `3 invalid_finish ""`}},
	} {
		for reader, r := range map[string]io.Reader{"whole": strings.NewReader(c.text), "bytes": iotest.OneByteReader(strings.NewReader(c.text))} {
			got, err := read(csvOf(r))
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%s, %s: %v (-want +got):\n%s", name, reader, err, diff)
			}
		}
	}
	for name, c := range map[string]struct{ text, says string }{
		"empty":          {"", "the list is empty"},
		"blank":          {"\n\n", "the list is empty"},
		"no header":      {"1234,John,M,55\n", "it names none of them"},
		"bars":           {"bib|name|sex|age\n1|John|M|55\n", "it names none of them"},
		"unknown column": {"bib;name;club;sex;age\n", "column 3 is none of these"},
		"column twice":   {"bib\tname\tsex\tage\tAGE\n", "age is there twice"},
		"column missing": {"Name,Bib\n", "sex is missing, age is missing"},
		"mixed":          {"bib;name;sex,age\n", "column 3 is none of these, sex is missing, age is missing"},
		"long":           {long, "it is too long"},
		"open quote":     {"bib,name,sex,\"age\n1,John,M,55\n", "a quote in the wrong place"},
	} {
		rows, err := read(csvOf(strings.NewReader(c.text)))
		var bad *FormatError
		if !errors.As(err, &bad) || len(rows) > 0 || !strings.HasPrefix(bad.Detail, wantHeader) || !strings.Contains(bad.Detail, c.says) {
			t.Errorf("header %s: %v, %v; want an error that says %q", name, rows, err, c.says)
		}
	}
	// What is no text at all is no list.
	rows, err := read(csvOf(strings.NewReader("\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x01\xff\xdb\x00C\x00\x08\x9d\x81\x07\xb5\xf7")))
	var undecodable *charset.Error
	if !errors.As(err, &undecodable) || len(rows) > 0 {
		t.Errorf("a photograph: %v, %v", rows, err)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
		bad  bool
	}{
		"plain":             {` [{"bib":1234,"name":"John","sex":"M","age":55}] `, []string{"1 #1234 John M 55"}, false},
		"finish":            {`[{"finishedAt":"2011-11-06T14:03:05-05:00","bib":1,"name":"O'\u0042rien","sex":"X","age":0}]`, []string{"1 #1 O'Brien X 0 2011-11-06T19:03:05Z"}, false},
		"none":              {`[]`, nil, false},
		"wrong types":       {`[{"bib":"1","name":7,"sex":true,"age":"1"},{"bib":1.0,"name":"A","sex":"M","age":1e1},{}]`, []string{"1 #-1   -1", "2 #-1 A M -1", "3 #-1   -1"}, false},
		"wrong finishes":    {`[{"bib":1,"finishedAt":null},{"bib":2,"finishedAt":7},{"bib":3,"finishedAt":""},{"bib":4,"finishedAt":"noon"}]`, []string{`1 invalid_finish "1"`, `2 invalid_finish "2"`, `3 invalid_finish "3"`, `4 invalid_finish "4"`}, false},
		"no objects":        {`[1,null,"x",[],{"bib":5,"name":"A","sex":"F","age":5}]`, []string{`1 invalid_row ""`, `2 invalid_row ""`, `3 invalid_row ""`, `4 invalid_row ""`, "5 #5 A F 5"}, false},
		"unknown member":    {`[{"bib":1,"name":"A","sex":"M","age":20,"club":"x"}]`, []string{`1 invalid_row ""`}, false},
		"member twice":      {`[{"bib":1,"bib":2,"name":"A","sex":"M","age":20}]`, []string{`1 invalid_row ""`}, false},
		"another case":      {`[{"Bib":1,"name":"A","sex":"M","age":20}]`, []string{`1 invalid_row ""`}, false},
		"lone surrogate":    {`[{"bib":1,"name":"\ud800","sex":"M","age":20}]`, []string{`1 invalid_row ""`}, false},
		"not UTF-8":         {"[{\"bib\":1,\"name\":\"\xff\",\"sex\":\"M\",\"age\":20}]", []string{`1 invalid_row ""`}, false},
		"deep":              {"[" + strings.Repeat("[", 50) + strings.Repeat("]", 50) + "]", []string{`1 invalid_row ""`}, false},
		"no array":          {`{"bib":1}`, nil, true},
		"empty":             {``, nil, true},
		"breaks off":        {`[{"bib":1,"name":"A","sex":"M","age":20},{"bib":2`, []string{"1 #1 A M 20"}, true},
		"not closed":        {`[{"bib":1,"name":"A","sex":"M","age":20}`, []string{"1 #1 A M 20"}, true},
		"mistake":           {`[{"bib":1,"name":"A","sex":"M","age":20},{bib:2}]`, []string{"1 #1 A M 20"}, true},
		"two arrays":        {`[][]`, nil, true},
		"an endless string": {`[{"bib":1,"name":"` + strings.Repeat("x", 4*maxRow) + `"}]`, nil, true},
		"endless blanks":    {`[` + strings.Repeat(" ", 4*maxRow) + `]`, nil, true},
	} {
		for reader, r := range map[string]io.Reader{"whole": strings.NewReader(c.text), "bytes": iotest.OneByteReader(strings.NewReader(c.text))} {
			got, err := read(JSON(r))
			var bad *FormatError
			if diff := cmp.Diff(c.want, got); errors.As(err, &bad) != c.bad || err != nil && !c.bad || diff != "" {
				t.Errorf("%s, %s: %v (-want +got):\n%s", name, reader, err, diff)
			}
		}
	}
}

// The trouble of the connection comes through as it is.
func TestReaderErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, list := range map[string]func(io.Reader) iter.Seq2[registrations.Row, error]{"csv": csvOf, "json": JSON} {
		text := map[string]string{"csv": "bib,name,sex,age\n1,A,M,20\n2,B", "json": `[{"bib":1,"name":"A","sex":"M","age":20},{"bib":2`}[name]
		rows, err := read(list(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken))))
		if !errors.Is(err, broken) || len(rows) != 1 {
			t.Errorf("%s: %v, %v", name, rows, err)
		}
	}
}

func FuzzCSV(f *testing.F) {
	f.Add("bib,name,sex,age\n1,A,M,20\n")
	f.Add("\uFEFFage,sex,name,bib,finishedAt\r\n1,\"A\n")
	f.Add("Bib;NAME;sex;age\r\n1;Zo\xeb;F;30\r\n;;;\r\n2;\xc8\xe2\xe0\xed;M;31\n")
	f.Add("\xff\xfeb\x00i\x00b\x00\t\x00")
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		for row, err := range csvOf(strings.NewReader(text)) {
			if err == nil && row.Line <= last {
				t.Errorf("line %d after %d", row.Line, last)
			}
			last = row.Line
		}
	})
}

func FuzzJSON(f *testing.F) {
	f.Add(`[{"bib":1,"name":"A","sex":"M","age":20}]`)
	f.Add(`[{"bib":1},{"bib":1,"bib":2},null,[],"x"]`)
	f.Add("[\n{}\n,")
	f.Fuzz(func(t *testing.T, text string) {
		last, ended := 0, false
		for row, err := range JSON(strings.NewReader(text)) {
			if ended {
				t.Error("it goes on after an error")
			}
			if ended = err != nil; !ended && row.Line < last {
				t.Errorf("line %d after %d", row.Line, last)
			}
			last = row.Line
		}
	})
}
