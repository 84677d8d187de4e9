package upstream

import (
	"encoding/json"
	"errors"

	"github.com/weirlimit/weir/internal/reserve"
)

// stored is a record as it is in a cell: JSON, so that people can read it.
type stored struct {
	Region string // a copy of another region's record is none
	reserve.Record
}

// encode is the text of a record.
func encode(region string, r reserve.Record) []byte {
	text, _ := json.Marshal(stored{region, r}) // it has nothing that JSON lacks
	return text
}

// decode reads a record; of nothing it is the zero one.
func decode(region string, text []byte) (reserve.Record, error) {
	if text == nil {
		return reserve.Record{}, nil
	}
	var s stored
	if err := json.Unmarshal(text, &s); err != nil {
		return reserve.Record{}, err
	}
	if s.Region != region {
		return reserve.Record{}, errors.New("it is the record of region " + s.Region)
	}
	if err := s.Check(); err != nil {
		return reserve.Record{}, err
	}
	return s.Record, nil
}
