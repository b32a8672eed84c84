package jinja

// arguments of a call, filter or test.
type arguments struct {
	pos   []expr
	names []string
	named []expr
}

func (p *parser) call(e expr) expr {
	line := p.line()
	return callExpr{fn: e, args: p.args(), line: line}
}

func (p *parser) args() arguments {
	var a arguments
	p.wantOp("(")
	for !p.acceptOp(")") {
		if p.at(tokName) && p.toks[p.i+1].kind == tokOp && p.toks[p.i+1].text == "=" {
			a.names = append(a.names, p.next().text)
			p.i++
			a.named = append(a.named, p.expr())
		} else {
			a.pos = append(a.pos, p.expr())
		}
		if !p.acceptOp(",") {
			p.wantOp(")")
			break
		}
	}
	return a
}

// filters: "|" filter, "is" ["not"] test, and calls of the result.
func (p *parser) filters(e expr) expr {
	for n := 0; p.link(&n); {
		switch {
		case p.acceptOp("|"):
			e = p.filter(e)
		case p.acceptWord("is"):
			e = p.test(e)
		case p.isOp("("):
			e = p.call(e)
		default:
			return e
		}
	}
	return e
}

func (p *parser) filter(e expr) expr {
	t := p.want(tokName, "the name of a filter")
	f := filterExpr{of: e, name: t.text, line: t.line}
	if _, ok := filters[f.name]; !ok {
		fail("line %d: unknown filter %s", t.line, shorten(f.name))
	}
	if p.isOp("(") {
		f.args = p.args()
	}
	return f
}

func (p *parser) test(e expr) expr {
	not := p.acceptWord("not")
	t := p.want(tokName, "the name of a test")
	x := testExpr{of: e, name: t.text, line: t.line}
	if _, ok := tests[x.name]; !ok {
		fail("line %d: unknown test %s", t.line, shorten(x.name))
	}
	switch n := p.peek(); {
	case p.isOp("("):
		x.args = p.args().pos
	case n.kind == tokString, n.kind == tokInt, n.kind == tokFloat, p.isOp("["), p.isOp("{"),
		n.kind == tokName && !p.isWord("else") && !p.isWord("or") && !p.isWord("and") && !p.isWord("is") &&
			!p.isWord("if") && !p.isWord("in") && !p.isWord("not") && !p.isWord("recursive"):
		x.args = []expr{p.postfix(p.primary())}
	}
	if not {
		return notExpr{x}
	}
	return x
}
