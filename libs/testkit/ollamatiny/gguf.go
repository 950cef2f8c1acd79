package ollamatiny

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// The parts of GGUF version 3 that a model of one layer needs: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
const (
	ggufVersion   = 3
	ggufAlignment = 32

	typeUint32  = 4
	typeInt32   = 5
	typeFloat32 = 6
	typeBool    = 7
	typeString  = 8
	typeArray   = 9

	tensorF32 = 0
	tensorF16 = 1
)

// file is a GGUF file in the making.
type file struct {
	keys    []entry
	tensors []tensor
}

type entry struct {
	key   string
	value any // uint32, float32, bool, string, []string or []int32
}

// tensor is a matrix, or a vector when columns is 0. rows is the length of the inner dimension, as ggml counts.
type tensor struct {
	name          string
	rows, columns int
	data          []float32
}

func (f *file) set(key string, value any) { f.keys = append(f.keys, entry{key, value}) }

// vector adds a vector of one value, kept in 32 bits, as norms are.
func (f *file) vector(name string, n int, value float32) {
	data := make([]float32, n)
	for i := range data {
		data[i] = value
	}
	f.tensors = append(f.tensors, tensor{name, n, 0, data})
}

// matrix adds a matrix of 16-bit numbers; at gives the value for an outer and an inner index, nil is zero everywhere.
func (f *file) matrix(name string, rows, columns int, at func(column, row int) float32) {
	data := make([]float32, rows*columns)
	if at != nil {
		for c := range columns {
			for r := range rows {
				data[c*rows+r] = at(c, r)
			}
		}
	}
	f.tensors = append(f.tensors, tensor{name, rows, columns, data})
}

func (t tensor) kind() uint32 {
	if t.columns == 0 {
		return tensorF32
	}
	return tensorF16
}

func (t tensor) size() int {
	if t.columns == 0 {
		return 4 * len(t.data)
	}
	return 2 * len(t.data)
}

func pad(n int) int { return (ggufAlignment - n%ggufAlignment) % ggufAlignment }

type writer struct{ bytes.Buffer }

func (w *writer) number(v any) {
	// Writing fixed-size values to a buffer cannot fail.
	_ = binary.Write(&w.Buffer, binary.LittleEndian, v)
}

func (w *writer) text(s string) {
	w.number(uint64(len(s)))
	w.WriteString(s)
}

func (w *writer) align() { w.Write(make([]byte, pad(w.Len()))) }

func (w *writer) value(v any) error {
	switch v := v.(type) {
	case uint32:
		w.number(uint32(typeUint32))
		w.number(v)
	case float32:
		w.number(uint32(typeFloat32))
		w.number(v)
	case bool:
		w.number(uint32(typeBool))
		w.number(v)
	case string:
		w.number(uint32(typeString))
		w.text(v)
	case []string:
		w.number([]uint32{typeArray, typeString})
		w.number(uint64(len(v)))
		for _, s := range v {
			w.text(s)
		}
	case []int32:
		w.number([]uint32{typeArray, typeInt32})
		w.number(uint64(len(v)))
		w.number(v)
	default:
		return fmt.Errorf("gguf: no type for %T", v)
	}
	return nil
}

// bytes lays the file out: header, keys, descriptions of the tensors, and their data, each aligned.
func (f *file) bytes() ([]byte, error) {
	var w writer
	w.WriteString("GGUF")
	w.number(uint32(ggufVersion))
	w.number(uint64(len(f.tensors)))
	w.number(uint64(len(f.keys)))
	for _, e := range f.keys {
		w.text(e.key)
		if err := w.value(e.value); err != nil {
			return nil, fmt.Errorf("%s: %w", e.key, err)
		}
	}
	offset := 0
	for _, t := range f.tensors {
		w.text(t.name)
		if t.columns == 0 {
			w.number(uint32(1))
			w.number(uint64(t.rows))
		} else {
			w.number(uint32(2))
			w.number([]uint64{uint64(t.rows), uint64(t.columns)})
		}
		w.number(t.kind())
		w.number(uint64(offset))
		offset += t.size() + pad(t.size())
	}
	w.align()
	for _, t := range f.tensors {
		for _, v := range t.data {
			if t.kind() == tensorF32 {
				w.number(v)
			} else {
				w.number(half(v))
			}
		}
		w.align()
	}
	return w.Bytes(), nil
}

// half is a number in 16 bits. The models hold small whole numbers only, which are exact.
func half(v float32) uint16 {
	b := math.Float32bits(v)
	if v == 0 {
		return 0
	}
	sign := uint16(b >> 16 & 0x8000)
	exponent := int(b>>23&0xff) - 127 + 15
	return sign | uint16(exponent)<<10 | uint16(b>>13&0x3ff)
}
