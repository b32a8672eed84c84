package jinja

// parser is a recursive descent over the tokens, with Jinja's precedence.
type parser struct {
	toks  []token
	i     int
	depth int
}

func (p *parser) peek() token       { return p.toks[p.i] }
func (p *parser) line() int         { return p.peek().line }
func (p *parser) at(k tokKind) bool { return p.peek().kind == k }

func (p *parser) next() token {
	t := p.toks[p.i]
	if t.kind != tokEOF {
		p.i++
	}
	return t
}

func (p *parser) isOp(op string) bool { t := p.peek(); return t.kind == tokOp && t.text == op }

func (p *parser) isWord(w string) bool { t := p.peek(); return t.kind == tokName && t.text == w }

func (p *parser) acceptOp(op string) bool {
	ok := p.isOp(op)
	if ok {
		p.i++
	}
	return ok
}

func (p *parser) acceptWord(w string) bool {
	ok := p.isWord(w)
	if ok {
		p.i++
	}
	return ok
}

func (p *parser) wantOp(op string) {
	if !p.acceptOp(op) {
		fail("line %d: expected %q, found %s", p.line(), op, p.found())
	}
}

func (p *parser) want(k tokKind, what string) token {
	if !p.at(k) {
		fail("line %d: expected %s, found %s", p.line(), what, p.found())
	}
	return p.next()
}

func (p *parser) found() string {
	switch t := p.peek(); t.kind {
	case tokEOF:
		return "the end of the template"
	case tokEnd:
		return "the end of the tag"
	default:
		return shorten(t.text)
	}
}

// peekName is the name after {%.
func (p *parser) peekName() string {
	if p.i+1 < len(p.toks) && p.toks[p.i+1].kind == tokName {
		return p.toks[p.i+1].text
	}
	return ""
}

func (p *parser) enter() {
	if p.depth++; p.depth > maxDepth {
		fail("line %d: the template nests more than %d deep", p.line(), maxDepth)
	}
}

func (p *parser) leave() { p.depth-- }

// link counts the links of a chain, which is a tree that leans to the left: as deep as it is long.
func (p *parser) link(n *int) bool {
	if *n++; *n > maxChain {
		fail("line %d: more than %d operators in a row", p.line(), maxChain)
	}
	return true
}
