package kernel_test

import (
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

func TestFormatNamesAndSizes(t *testing.T) {
	for _, c := range []struct {
		f    kernel.Format
		name string
		bits float64
	}{
		{kernel.FormatQ4_0, "q4g32b8", 4.5},
		{kernel.FormatQ4_1, "q4g32a", 5},
		{kernel.FormatQ8_0, "q8g32b128", 8.5},
		{kernel.Asym(128), "q4g128a", 4.25},
		{kernel.FormatF16, "f16", 16},
		{kernel.FormatBF16, "bf16", 16},
		{kernel.FormatF32, "f32", 32},
		{kernel.Format{Bits: 8, Group: 64, Bias: 128, Scale: kernel.ScaleBF16}, "q8g64b128-bf16", 8.25},
		{kernel.FormatQ4_K, "q4g32a-q4_k", 4.625},
		{kernel.FormatQ6_K, "q6g16b32-q6_k", 6.5625},
		{kernel.FormatQ5_K, "q6g32a-q4_k", 6.625},
		{kernel.FormatQ3_K, "q4g16b8-q6_k", 4.5625},
		{kernel.FormatQ2_K, "q4g16a-q4_k", 5.125},
		{kernel.Format{Bits: 6, Group: 32, Bias: 32, Scale: kernel.ScaleF16}, "q6g32b32", 6.5},
	} {
		if err := c.f.Validate(); err != nil {
			t.Error(err)
		}
		if c.f.String() != c.name || c.f.BitsPerWeight() != c.bits {
			t.Errorf("%+v: %s of %g bits a weight, want %s of %g", c.f, c.f, c.f.BitsPerWeight(), c.name, c.bits)
		}
	}
}

func TestFormatValidateRefuses(t *testing.T) {
	for name, f := range map[string]kernel.Format{
		"zero":                 {},
		"5 bits":               {Bits: 5, Group: 32, Scale: kernel.ScaleF16},
		"group of 48":          {Bits: 4, Group: 48, Scale: kernel.ScaleF16},
		"bias of 7":            {Bits: 4, Group: 32, Bias: 7, Scale: kernel.ScaleF16},
		"no scale type":        {Bits: 4, Group: 32},
		"f16 with a group":     {Bits: 16, Group: 32, Scale: kernel.ScaleF16},
		"16 bits of f32":       {Bits: 16, Scale: "f32"},
		"unknown super-scale":  {Bits: 4, Group: 32, Super: "q9", Scale: kernel.ScaleF16},
		"super without offset": {Bits: 4, Group: 32, Super: kernel.SuperQ4K, Scale: kernel.ScaleF16},
		"super with offset":    {Bits: 6, Group: 16, Offset: true, Super: kernel.SuperQ6K, Scale: kernel.ScaleF16},
		"f32 with offset":      {Bits: 32, Offset: true},
	} {
		if f.Validate() == nil {
			t.Errorf("%s is valid", name)
		}
	}
}

func TestFormatArith(t *testing.T) {
	if a := kernel.FormatF16.Arith(kernel.A8); a != kernel.F32 {
		t.Errorf("f16 weights run in %s", a)
	}
	if a := kernel.FormatQ4_0.Arith(kernel.A16); a != kernel.A16 {
		t.Errorf("q4 weights run in %s", a)
	}
}

func TestFormatUnits(t *testing.T) {
	for _, c := range []struct {
		f           kernel.Format
		unit, scale int
	}{
		{kernel.FormatQ4_0, 32, 32}, {kernel.Asym(128), 128, 128}, {kernel.FormatQ6_K, 256, 256}, {kernel.FormatQ4_K, 256, 256},
		{kernel.FormatF16, 2, 0}, {kernel.FormatF32, 1, 0},
	} {
		if c.f.Unit() != c.unit || c.f.ScaleGroup() != c.scale {
			t.Errorf("%s: unit %d, scale group %d, want %d and %d", c.f, c.f.Unit(), c.f.ScaleGroup(), c.unit, c.scale)
		}
	}
}

func TestScaleSet(t *testing.T) {
	f := kernel.FormatQ4_K
	s := f.NewScaleSet(1024)
	if !s.Fits(f, 1024) || s.Fits(f, 512) || s.Fits(kernel.FormatQ4_1, 1024) || len(s.Scales) != 4 || len(s.SubOffsets) != 32 {
		t.Errorf("%+v", s)
	}
	for i := range s.Subs {
		s.Subs[i], s.SubOffsets[i], s.Scales[i/8], s.Offsets[i/8] = byte(i), byte(i+100), uint16(i/8), uint16(10+i/8)
	}
	part := f.NewScaleSet(256)
	part.Copy(s.Slice(f, 512, 768))
	if !part.Fits(f, 256) || part.Scales[0] != 2 || part.Offsets[0] != 12 || part.Subs[0] != 16 || part.SubOffsets[7] != 123 {
		t.Errorf("%+v", part)
	}
	if s := kernel.FormatQ8_0.NewScaleSet(64); !s.Fits(kernel.FormatQ8_0, 64) || s.Offsets != nil || s.Subs != nil {
		t.Errorf("%+v", s)
	}
	if s := kernel.FormatF32.NewScaleSet(64); s.Scales != nil {
		t.Errorf("%+v", s)
	}
}
