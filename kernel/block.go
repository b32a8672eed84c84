package kernel

// Block names how rows of weights are stored in a file: blocks of so many consecutive weights in so many
// bytes. Quantised blocks are those of GGUF; floats count as blocks of 32. OpPack reads rows of
// blocks; BlockNone stands for rows of 8-bit codes.
type Block string

const (
	BlockNone  Block = ""
	BlockQ4_0  Block = "q4_0"
	BlockQ4_1  Block = "q4_1"
	BlockQ5_0  Block = "q5_0"
	BlockQ5_1  Block = "q5_1"
	BlockQ8_0  Block = "q8_0"
	BlockQ2_K  Block = "q2_k"
	BlockQ3_K  Block = "q3_k"
	BlockQ4_K  Block = "q4_k"
	BlockQ5_K  Block = "q5_k"
	BlockQ6_K  Block = "q6_k"
	BlockIQ4NL Block = "iq4_nl"
	BlockIQ4XS Block = "iq4_xs"
	BlockF16   Block = "f16"
	BlockBF16  Block = "bf16"
	BlockF32   Block = "f32"
)

type blockInfo struct {
	weights, bytes int
	format         Format
}

// blocks holds the sizes of ggml's structs (ggml-common.h) and the format that holds each exactly.
var blocks = map[Block]blockInfo{
	BlockQ4_0: {32, 18, FormatQ4_0}, BlockQ4_1: {32, 20, FormatQ4_1},
	BlockQ5_0: {32, 22, FormatQ8_0}, BlockQ5_1: {32, 24, Format{Bits: 8, Group: 32, Offset: true, Scale: ScaleF16}},
	BlockQ8_0: {32, 34, FormatQ8_0},
	BlockQ2_K: {256, 84, FormatQ2_K}, BlockQ3_K: {256, 110, FormatQ3_K}, BlockQ4_K: {256, 144, FormatQ4_K},
	BlockQ5_K: {256, 176, FormatQ5_K}, BlockQ6_K: {256, 210, FormatQ6_K},
	BlockIQ4NL: {32, 18, FormatQ8_0},
	BlockIQ4XS: {256, 136, Format{Bits: 8, Group: 32, Bias: 128, Super: SuperQ6K, Scale: ScaleF16}},
	BlockF16:   {32, 64, FormatF16}, BlockBF16: {32, 64, FormatBF16}, BlockF32: {32, 128, FormatF32},
}

// Blocks are the quantised block types.
var Blocks = []Block{BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, BlockQ2_K, BlockQ3_K, BlockQ4_K, BlockQ5_K,
	BlockQ6_K, BlockIQ4NL, BlockIQ4XS}

// Weights is the number of weights of a block, 0 for BlockNone and unknown types.
func (b Block) Weights() int { return blocks[b].weights }

// Bytes is the size of a block, 0 for BlockNone and unknown types.
func (b Block) Bytes() int { return blocks[b].bytes }

// Format is the format that holds the stored weights exactly; of quantised blocks one 16-bit scale to
// a block.
func (b Block) Format() Format { return blocks[b].format }

// Packs reports whether OpPack may make a format of such blocks. Quantised ones keep their grid;
// floats are quantised to codes with an offset from 0 or about a bias.
func (b Block) Packs(f Format) bool {
	info, ok := blocks[b]
	if !ok || !info.format.IsFloat() {
		return ok && f == info.format
	}
	return f.Validate() == nil && !f.IsFloat() && f.Super == SuperNone && f.Offset == (f.Bias == 0) && f.Bias <= 1<<(f.Bits-1)
}

// IQ4Values are the codes, of Bias 128, that the nibbles of BlockIQ4NL and BlockIQ4XS stand for: ggml's
// kvalues_iq4nl plus 128.
var IQ4Values = [16]uint8{1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}
