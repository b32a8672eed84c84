package engine

import (
	"fmt"

	"github.com/tilewright/tilewright/engine/linear"
	"github.com/tilewright/tilewright/engine/model"
)

// embedding looks up rows: in the packed head if it is tied, else in the checkpoint.
type embedding struct {
	head  *linear.Region // not nil if tied
	mat   model.Matrix
	scale float32
	rows  int
}

func newEmbedding(m *model.Model, head *linear.Region) (embedding, error) {
	em := embedding{scale: m.Spec.EmbedScale, rows: m.Spec.Vocab}
	if m.Spec.Tied || m.Checkpoint == nil {
		em.head = head
		return em, nil
	}
	var err error
	em.mat, err = m.Checkpoint.Embedding()
	return em, err
}

// row writes the embedding of a token.
func (em *embedding) row(id int, dst []float32) error {
	if id < 0 || id >= em.rows {
		return fmt.Errorf("token %d is not in the vocabulary of %d", id, em.rows)
	}
	var err error
	if em.head != nil {
		err = em.head.Segs[0].Row(id, dst)
	} else {
		err = em.mat.Floats(id, dst)
	}
	if em.scale != 1 {
		for i := range dst {
			dst[i] *= em.scale
		}
	}
	return err
}
