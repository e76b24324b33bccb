// A judge of histories of a log: is each of them linearizable? Porcupine decides.
//
//	judge [-timeout 60s] FILE...     or FILEs on standard input, one a line, with FILE "-"
//
// Each file has one operation a line, as tests/judges/judging.py writes them: settled, and cut into
// blocks of offsets. For each file one line of JSON goes to standard output, with the verdict Ok,
// Illegal or Unknown (Porcupine ran out of time). The program ends with 1 after an Illegal or an
// error, otherwise with 2 after an Unknown, otherwise with 0.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// An operation of the log.
type operation struct {
	Block    int      `json:"block"`
	Base     int      `json:"base"` // how many records the log had where the block begins
	Kind     string   `json:"kind"`
	Called   int64    `json:"called"`
	Returned *int64   `json:"returned"` // absent: any time later
	Values   []string `json:"values"`
	Offset   *int     `json:"offset"`   // absent: the append took effect at any offset
	Expected *int     `json:"expected"` // a conditional append that succeeded
	Place    []int    `json:"place"`    // the position of the first record, where the client was told
}

// A record of the log, and those before it down to the base of the block.
type record struct {
	value  string
	before *record
}

// The state of the model: how many records the log has, and those of this block.
type logState struct {
	begun bool
	count int
	hash  uint64 // over the records of this block: two states with the same hash are the same
	last  *record
	place string // the last position that a client was told: positions only grow
}

func sortable(place []int) string {
	text := ""
	for _, each := range place {
		text += fmt.Sprintf("%020d.", each)
	}
	return text
}

func (s logState) append(value string) logState {
	hash := s.hash
	for i := 0; i < len(value); i++ {
		hash = (hash ^ uint64(value[i])) * 1099511628211
	}
	hash = (hash ^ 0xff) * 1099511628211
	return logState{true, s.count + 1, hash, &record{value, s.last}, s.place}
}

// Whether the log holds these values from this offset on.
func (s logState) holds(offset int, values []string) bool {
	at := s.last
	for skip := s.count - (offset + len(values)); skip > 0; skip-- {
		if at == nil {
			return false
		}
		at = at.before
	}
	for i := len(values) - 1; i >= 0; i-- {
		if at == nil || at.value != values[i] {
			return false
		}
		at = at.before
	}
	return true
}

func step(state, input, _ interface{}) (bool, interface{}) {
	s, o := state.(logState), input.(operation)
	if !s.begun {
		s = logState{begun: true, count: o.Base, hash: 14695981039346656037}
	}
	switch o.Kind {
	case "append":
		if o.Returned == nil && o.Expected != nil && o.Offset == nil && *o.Expected != s.count {
			return true, s // nothing was written, perhaps: its client was told nothing
		}
		if (o.Offset != nil && *o.Offset != s.count) || (o.Expected != nil && *o.Expected != s.count) {
			return false, s
		}
		if place := sortable(o.Place); place != "" {
			if place <= s.place {
				return false, s
			}
			s.place = place
		}
		for _, value := range o.Values {
			s = s.append(value)
		}
		return true, s
	case "end":
		return *o.Offset == s.count, s
	case "read": // a reader may lag, but what it reads is there
		return *o.Offset+len(o.Values) <= s.count && s.holds(*o.Offset, o.Values), s
	}
	panic("unknown kind of operation: " + o.Kind)
}

var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		blocks := map[int][]porcupine.Operation{}
		for _, each := range history {
			block := each.Input.(operation).Block
			blocks[block] = append(blocks[block], each)
		}
		parts := [][]porcupine.Operation{}
		for _, each := range blocks {
			parts = append(parts, each)
		}
		return parts
	},
	Init: func() interface{} { return logState{} },
	Step: step,
	Equal: func(a, b interface{}) bool {
		one, other := a.(logState), b.(logState)
		return one.begun == other.begun && one.count == other.count &&
			one.hash == other.hash && one.place == other.place
	},
}

func read(path string) ([]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	history := []porcupine.Operation{}
	decoder := json.NewDecoder(bufio.NewReader(file))
	for decoder.More() {
		var o operation
		if err := decoder.Decode(&o); err != nil {
			return nil, err
		}
		returned := int64(math.MaxInt64)
		if o.Returned != nil {
			returned = *o.Returned
		}
		history = append(history, porcupine.Operation{Input: o, Call: o.Called, Return: returned})
	}
	return history, nil
}

type verdict struct {
	File       string  `json:"file"`
	Verdict    string  `json:"verdict"`
	Operations int     `json:"operations"`
	Seconds    float64 `json:"seconds"`
}

func judge(path string, timeout time.Duration) (verdict, error) {
	history, err := read(path)
	if err != nil {
		return verdict{}, err
	}
	began := time.Now()
	result := porcupine.CheckOperationsTimeout(model, history, timeout)
	return verdict{path, string(result), len(history), time.Since(began).Seconds()}, nil
}

func paths(arguments []string) []string {
	if len(arguments) != 1 || arguments[0] != "-" {
		return arguments
	}
	found, lines := []string{}, bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		found = append(found, lines.Text())
	}
	return found
}

func main() {
	timeout := flag.Duration("timeout", time.Minute, "for each history")
	flag.Parse()
	code, output := 0, json.NewEncoder(os.Stdout)
	for _, path := range paths(flag.Args()) {
		result, err := judge(path, *timeout)
		if err != nil {
			fmt.Fprintln(os.Stderr, path+":", err)
			os.Exit(1)
		}
		if err := output.Encode(result); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if result.Verdict == string(porcupine.Illegal) {
			code = 1
		} else if result.Verdict == string(porcupine.Unknown) && code == 0 {
			code = 2
		}
	}
	os.Exit(code)
}
