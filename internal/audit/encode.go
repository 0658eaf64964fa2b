package audit

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// floatList is a list of numbers. Its JSON form is the base64 of little-endian float32
// numbers.
type floatList []float32

// MarshalJSON implements json.Marshaler.
func (f floatList) MarshalJSON() ([]byte, error) {
	b := make([]byte, 4*len(f))
	for i, v := range f {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(b))
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *floatList) UnmarshalJSON(text []byte) error {
	var b []byte
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	if len(b)%4 != 0 {
		return errors.New("numbers are cut short")
	}
	*f = make(floatList, len(b)/4)
	for i := range *f {
		(*f)[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return nil
}

// floatBits is a number. Its JSON form is its bits in hexadecimal, because JSON cannot
// represent infinite numbers.
type floatBits float64

// MarshalJSON implements json.Marshaler.
func (f floatBits) MarshalJSON() ([]byte, error) {
	return json.Marshal(fmt.Sprintf("%016x", math.Float64bits(float64(f))))
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *floatBits) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	bits, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return fmt.Errorf("%.40q is not a number", s)
	}
	*f = floatBits(math.Float64frombits(bits))
	return nil
}
