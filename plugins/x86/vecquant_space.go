package x86

import (
	"fmt"
	"slices"

	"github.com/tilewright/tilewright/kernel"
)

// quantSpace has parameters for integer arithmetics alone: how much of a group stays in registers
// between the search for its maximum and the rounding, how many groups are interleaved and how many
// gates. What does not stay is made twice, or kept in scratch memory where there is a gate.
func quantSpace(isa ISA, p kernel.Problem) (kernel.Space, error) {
	if err := checkQuant(p); err != nil {
		return kernel.Space{}, err
	}
	s := kernel.Space{Version: "2"}
	if p.Act.Arith == kernel.F32 {
		return s, nil
	}
	held, all := int64(p.Act.Group/isa.Lanes), int64(isa.Regs-5)
	fit := kernel.Constraint{Doc: "the groups must fit the vector registers", Terms: [][]string{{"hold", "groups"}, {"groups"}}, Max: all}
	scales := kernel.Constraint{Doc: "the groups' scales must fit beside them",
		Terms: [][]string{{"hold", "groups"}, {"groups", "3"}}, Max: int64(isa.Regs)}
	if p.Pre == kernel.PreNorm || p.Pre == kernel.PreAddNorm {
		scales.Max-- // 1/rms
	}
	add := func(name, doc string, def int64, values ...int64) {
		s.Params = append(s.Params, kernel.Param{Name: name, Doc: doc, Values: slices.Compact(values), Default: def})
	}
	const holdDoc, groupsDoc = "vectors of a group kept in registers between its maximum and its rounding", "groups that are interleaved"
	if p.Pre != kernel.PreGLU {
		if held > all-1 {
			held = all - 5 // what is made twice needs registers then
		}
		hold := held
		if 4*(held+1) > all || 4*(held+3) > scales.Max {
			hold = 0
		}
		add("hold", holdDoc, hold, 0, held)
		add("groups", groupsDoc, 4, 1, 2, 4)
		s.Constraints = []kernel.Constraint{fit, scales}
		return s, nil
	}
	chain, values := chainRegs(p.Gate), int64(isa.Regs-1)
	hold, groups, chains := int64(0), int64(4), int64(4)
	if isa.EVEX {
		hold = held
	} else if held+1+chain > values {
		held = 0
	}
	if p.Act.Group > 64 {
		groups = 2
	}
	for groups > 1 && ((hold+1)*groups+chain > values || (hold+1)*groups > all || (hold+3)*groups > scales.Max) {
		groups /= 2
	}
	for (hold+1)*groups+chain*chains > values {
		chains--
	}
	add("hold", holdDoc, hold, 0, held)
	add("groups", groupsDoc, groups, 1, 2, 4)
	add("chains", "vectors whose gates are interleaved", chains, 1, 2, 3, 4)
	s.Constraints = []kernel.Constraint{fit, scales, {Doc: "the gates must fit beside the groups",
		Terms: append(slices.Clone(fit.Terms), []string{"chains", fmt.Sprint(chain)}), Max: values}}
	return s, nil
}
