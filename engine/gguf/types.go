package gguf

import "fmt"

// Type is a GGML tensor type, as numbered in files.
type Type uint32

// The tensor types that the engine executes.
const (
	F32    Type = 0
	F16    Type = 1
	Q4_0   Type = 2
	Q4_1   Type = 3
	Q5_0   Type = 6
	Q5_1   Type = 7
	Q8_0   Type = 8
	Q2_K   Type = 10
	Q3_K   Type = 11
	Q4_K   Type = 12
	Q5_K   Type = 13
	Q6_K   Type = 14
	IQ4_NL Type = 20
	IQ4_XS Type = 23
	BF16   Type = 30
)

type typeInfo struct {
	name   string
	block  uint64 // weights of a block
	bytes  uint64 // bytes of a block
	weight bool   // executed as a weight
}

// types holds the sizes of ggml's block structs (ggml-common.h). Removed numbers are absent.
var types = map[Type]typeInfo{
	F32: {"F32", 1, 4, true}, F16: {"F16", 1, 2, true}, BF16: {"BF16", 1, 2, true},
	Q4_0: {"Q4_0", 32, 18, true}, Q4_1: {"Q4_1", 32, 20, true},
	Q5_0: {"Q5_0", 32, 22, true}, Q5_1: {"Q5_1", 32, 24, true},
	Q8_0: {"Q8_0", 32, 34, true}, 9: {"Q8_1", 32, 36, false},
	Q2_K: {"Q2_K", 256, 84, true}, Q3_K: {"Q3_K", 256, 110, true}, Q4_K: {"Q4_K", 256, 144, true},
	Q5_K: {"Q5_K", 256, 176, true}, Q6_K: {"Q6_K", 256, 210, true}, 15: {"Q8_K", 256, 292, false},
	16: {"IQ2_XXS", 256, 66, false}, 17: {"IQ2_XS", 256, 74, false}, 18: {"IQ3_XXS", 256, 98, false},
	19: {"IQ1_S", 256, 50, false}, IQ4_NL: {"IQ4_NL", 32, 18, true}, 21: {"IQ3_S", 256, 110, false},
	22: {"IQ2_S", 256, 82, false}, IQ4_XS: {"IQ4_XS", 256, 136, true},
	24: {"I8", 1, 1, false}, 25: {"I16", 1, 2, false}, 26: {"I32", 1, 4, false},
	27: {"I64", 1, 8, false}, 28: {"F64", 1, 8, false}, 29: {"IQ1_M", 256, 56, false},
	34: {"TQ1_0", 256, 54, false}, 35: {"TQ2_0", 256, 66, false}, 39: {"MXFP4", 32, 17, false},
}

func (t Type) String() string {
	if i, ok := types[t]; ok {
		return i.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Block is the number of weights of a block, 0 for an unknown type.
func (t Type) Block() int { return int(types[t].block) }

// BlockBytes is the size of a block, 0 for an unknown type.
func (t Type) BlockBytes() int { return int(types[t].bytes) }

// RowBytes is the size of a row of k weights; k must be a multiple of Block.
func (t Type) RowBytes(k int) int { return k / t.Block() * t.BlockBytes() }

// IsWeight reports whether the engine executes weights of this type.
func (t Type) IsWeight() bool { return types[t].weight }

// IsFloat reports whether the type is a plain float: F32, F16 or BF16.
func (t Type) IsFloat() bool { return t == F32 || t == F16 || t == BF16 }

// ValueType is the type of a metadata value, as numbered in files.
type ValueType uint32

const (
	vUint8 ValueType = iota
	vInt8
	vUint16
	vInt16
	vUint32
	vInt32
	vFloat32
	vBool
	vString
	vArray
	vUint64
	vInt64
	vFloat64
)

var valueTypes = [...]struct {
	name string
	size uint64 // 0: of variable size
}{
	{"uint8", 1}, {"int8", 1}, {"uint16", 2}, {"int16", 2}, {"uint32", 4}, {"int32", 4},
	{"float32", 4}, {"bool", 1}, {"string", 0}, {"array", 0}, {"uint64", 8}, {"int64", 8},
	{"float64", 8},
}

func (t ValueType) String() string {
	if int(t) < len(valueTypes) {
		return valueTypes[t].name
	}
	return fmt.Sprintf("type %d", uint32(t))
}
