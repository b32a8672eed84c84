package tokenizer

// trie finds special tokens in text.
type trie struct {
	root  *node
	first [256]bool // bytes that begin a token
}

type node struct {
	next map[byte]*node
	id   int32 // -1: no token ends here
	user bool  // user-defined: matched whether or not special tokens are parsed
}

func newTrie() *trie { return &trie{root: &node{id: -1}} }

func (t *trie) add(s string, id int32, user bool) {
	t.first[s[0]] = true
	n := t.root
	for i := range len(s) {
		c := n.next[s[i]]
		if c == nil {
			if n.next == nil {
				n.next = map[byte]*node{}
			}
			c = &node{id: -1}
			n.next[s[i]] = c
		}
		n = c
	}
	if n.id < 0 {
		n.id, n.user = id, user
	}
}

// find returns the first and, there, longest token of text: position, length and id. Without one the
// position is the end of text and the length 0.
func (t *trie) find(text string, all bool) (at, size int, id int32) {
	for at = range len(text) {
		if !t.first[text[at]] {
			continue
		}
		n := t.root
		for i := at; i < len(text); i++ {
			if n = n.next[text[i]]; n == nil {
				break
			}
			if n.id >= 0 && (all || n.user) {
				size, id = i+1-at, n.id
			}
		}
		if size > 0 {
			return at, size, id
		}
	}
	return len(text), 0, -1
}
