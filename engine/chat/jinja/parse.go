package jinja

import "strconv"

// expr: or ["if" or ["else" expr]]
func (p *parser) expr() expr {
	p.enter()
	defer p.leave()
	e := p.or()
	for n := 0; p.acceptWord("if") && p.link(&n); {
		c := ifExpr{cond: p.or(), then: e}
		if p.acceptWord("else") {
			c.other = p.expr()
		}
		e = c
	}
	return e
}

func (p *parser) or() expr {
	e := p.and()
	for n := 0; p.acceptWord("or") && p.link(&n); {
		e = orExpr{e, p.and()}
	}
	return e
}

func (p *parser) and() expr {
	e := p.not()
	for n := 0; p.acceptWord("and") && p.link(&n); {
		e = andExpr{e, p.not()}
	}
	return e
}

func (p *parser) not() expr {
	p.enter()
	defer p.leave()
	if p.acceptWord("not") {
		return notExpr{p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	first := p.sum()
	var c compareExpr
	for {
		op := p.compareOp()
		if op == "" {
			break
		}
		c.ops = append(c.ops, op)
		c.args = append(c.args, p.sum())
	}
	if c.ops == nil {
		return first
	}
	c.first = first
	return c
}

func (p *parser) compareOp() string {
	for _, op := range []string{"==", "!=", "<", "<=", ">", ">="} {
		if p.acceptOp(op) {
			return op
		}
	}
	if p.acceptWord("in") {
		return "in"
	}
	if n := p.toks[min(p.i+1, len(p.toks)-1)]; p.isWord("not") && n.kind == tokName && n.text == "in" {
		p.i += 2
		return "not in"
	}
	return ""
}

func (p *parser) binary(operand func() expr, ops ...string) expr {
	e := operand()
	for n := 0; p.link(&n); {
		op := ""
		for _, o := range ops {
			if p.acceptOp(o) {
				op = o
				break
			}
		}
		if op == "" {
			return e
		}
		e = binaryExpr{op, e, operand()}
	}
	return e
}

func (p *parser) sum() expr    { return p.binary(p.concat, "+", "-") }
func (p *parser) concat() expr { return p.binary(p.product, "~") }
func (p *parser) product() expr {
	return p.binary(func() expr { return p.binary(func() expr { return p.unary(true) }, "**") }, "*", "//", "/", "%")
}

func (p *parser) unary(filters bool) expr {
	p.enter()
	defer p.leave()
	var e expr
	if p.acceptOp("-") {
		e = negExpr{p.unary(false)}
	} else if p.acceptOp("+") {
		e = p.unary(false)
	} else {
		e = p.postfix(p.primary())
	}
	if filters {
		e = p.filters(e)
	}
	return e
}

func (p *parser) primary() expr {
	t := p.next()
	switch {
	case t.kind == tokString:
		s := t.text
		for p.at(tokString) {
			s += p.next().text
		}
		return constExpr{s}
	case t.kind == tokInt:
		n, err := strconv.Atoi(t.text)
		if err != nil {
			fail("line %d: number %s is out of range", t.line, shorten(t.text))
		}
		return constExpr{n}
	case t.kind == tokFloat:
		f, _ := strconv.ParseFloat(t.text, 64)
		return constExpr{f}
	case t.kind == tokName:
		switch t.text {
		case "true", "True":
			return constExpr{true}
		case "false", "False":
			return constExpr{false}
		case "none", "None":
			return constExpr{nil}
		}
		return nameExpr{t.text, t.line}
	case t.kind == tokOp && t.text == "(":
		return p.paren()
	case t.kind == tokOp && t.text == "[":
		return listExpr{p.items("]")}
	case t.kind == tokOp && t.text == "{":
		return p.dict()
	}
	p.i = max(p.i-1, 0)
	fail("line %d: expected an expression, found %s", t.line, p.found())
	return nil
}

func (p *parser) paren() expr {
	if p.acceptOp(")") {
		return listExpr{}
	}
	e := p.expr()
	if p.acceptOp(",") {
		return listExpr{append([]expr{e}, p.items(")")...)}
	}
	p.wantOp(")")
	return e
}

func (p *parser) items(end string) []expr {
	var out []expr
	for !p.acceptOp(end) {
		out = append(out, p.expr())
		if !p.acceptOp(",") {
			p.wantOp(end)
			break
		}
	}
	return out
}

func (p *parser) dict() expr {
	var d dictExpr
	for !p.acceptOp("}") {
		d.keys = append(d.keys, p.expr())
		p.wantOp(":")
		d.vals = append(d.vals, p.expr())
		if !p.acceptOp(",") {
			p.wantOp("}")
			break
		}
	}
	return d
}

func (p *parser) postfix(e expr) expr {
	for n := 0; p.link(&n); {
		switch {
		case p.acceptOp("."):
			t := p.next()
			if t.kind == tokInt {
				n, _ := strconv.Atoi(t.text)
				e = indexExpr{e, constExpr{n}}
			} else if t.kind == tokName {
				e = attrExpr{e, t.text}
			} else {
				fail("line %d: expected a name after the dot", t.line)
			}
		case p.acceptOp("["):
			e = p.subscript(e)
		case p.isOp("("):
			e = p.call(e)
		default:
			return e
		}
	}
	return e
}

func (p *parser) subscript(e expr) expr {
	var parts [3]expr
	colons := 0
	for !p.acceptOp("]") {
		if p.acceptOp(":") {
			if colons++; colons > 2 {
				fail("line %d: malformed slice", p.line())
			}
			continue
		}
		parts[colons] = p.expr()
		if !p.isOp("]") && !p.isOp(":") {
			fail("line %d: expected %q, found %s", p.line(), "]", p.found())
		}
	}
	if colons > 0 {
		return sliceExpr{e, parts}
	}
	if parts[0] == nil {
		fail("line %d: empty index", p.line())
	}
	return indexExpr{e, parts[0]}
}
