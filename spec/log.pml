/*
 * The protocol of the log, for Spin. README.md beside this file says what it claims and how it is run.
 *
 * Nodes write to one table of rows through database sessions. What stands in one atomic is done by the database or by
 * a process in one instant; everything else interleaves. A statement is cut where PostgreSQL at READ COMMITTED cuts it:
 * the picture it reads, the lock on the predecessor, the look into the unique index, the commit. MySQL's append has the
 * same lock, and SQLite's is one step: both have fewer interleavings.
 *
 * A stall needs no step: a process that is not chosen for a while stands still.
 *
 * Faults of the protocol, each of which must be found, by a define:
 *
 *	NO_LOCK        the append looks for its predecessor in its picture, and does not lock it
 *	PLAIN_INSERT   the append asks for nothing but a free slot
 *	DROP_NEWEST    truncation takes the newest row too
 *	DROP_EARLY     truncation comes before the snapshot is durable
 *	BLIND_RETRY    after an unknown outcome the command goes to another slot, whatever stands in the old one
 *	ANY_SNAPSHOT   a snapshot replaces a newer one
 *	GUESS          a command whose row an install has jumped over is taken for a success
 *
 * BLIND_HISTORY takes away the look at what was ever committed, and at who got stuck, so that a fork shows only where a node reads it.
 */

#ifndef WRITERS
#define WRITERS 3 /* nodes */
#endif
#ifndef EACH
#define EACH 1 /* commands that each of them proposes: 1 or 2 */
#endif
#ifndef CUTS
#define CUTS 1 /* answers that get lost, in all */
#endif
#ifndef CRASHES
#define CRASHES 1 /* processes that die and start again, in all */
#endif
#ifndef KEEPERS
#define KEEPERS 2 /* snapshot cycles, in all, each by any node */
#endif

#define COMMANDS (WRITERS * EACH)
#define SESSIONS (WRITERS + CUTS + CRASHES) /* one for each node, and those that may be left behind */
#define SLOTS (COMMANDS + 2)
#define NONE 255

/* ---- the database ---- */

bool present[SLOTS];  /* the row is committed and was not deleted */
byte holds[SLOTS];    /* the command in such a row; 0 in row 0 */
byte inserter[SLOTS]; /* the session that has inserted the row and not committed it; NONE */
byte sharers[SLOTS];  /* how many appends hold the lock of the row */
bool dropping[SLOTS]; /* a truncation has deleted the row and not committed that */
byte snapshot;        /* index of the current snapshot; 0: there is none */

/* What no part of the system can see: the history. */
byte ever[SLOTS];      /* the command that was committed first in the slot; NONE: none ever was */
byte places[COMMANDS]; /* in how many slots the command was ever committed */
byte head;             /* the highest slot that was ever committed */

/* ---- sessions: the appends under way ---- */

mtype = { idle, sent, pictured, locked, inserted }
mtype stage[SESSIONS];
byte owner[SESSIONS];  /* the node that waits for the answer; NONE: nobody does any more */
byte target[SESSIONS]; /* the slot */
byte cargo[SESSIONS];  /* the command */

/* ---- nodes ---- */

mtype = { noanswer, ok, conflict }
mtype = { unheld, asking, unsure, lost, down }
mtype phase[WRITERS];  /* of the flusher */
mtype answer[WRITERS]; /* to the append under way */
byte hand[WRITERS];    /* the command in hand */
byte slot[WRITERS];    /* its slot */
bool doubted[WRITERS]; /* an append of it ended without saying what it did */
bool jumped[WRITERS];  /* an install went past the slot while an append of it was under way */
byte own[WRITERS];     /* the highest slot acknowledged to the flusher */
byte applied[WRITERS];
bool covered[WRITERS]; /* a look has shown that the next row is gone and that the snapshot covers it */

mtype = { queued, inhand, handed, acknowledged, unknown }
mtype fate[COMMANDS]; /* commands are numbered from 0 here, and from 1 in rows */
byte at[COMMANDS];    /* the slot of a handed one */

byte cuts = CUTS;
byte crashes = CRASHES;
byte keepers = KEEPERS; /* that have not ended */

/* The properties. Each is asserted where it could become false. */
bool one_row_for_ever = true;     /* no index ever holds two rows, truncated or not */
bool stands_once = true;          /* no command stands in two rows */
bool acknowledged_is_kept = true; /* what a caller was told is what the history has */
bool equal_prefix = true;         /* every node applies the history, in order */
bool recoverable = true;          /* snapshot and present rows are the whole history, at any moment */
bool all_reach_the_head = true;   /* when nothing more can happen, every node has everything and every caller an answer */

/* Scratch, of no meaning between two steps; so it is no part of a state, but where Spin searches breadth first. */
#ifdef BREADTH
byte i, c, s;
#else
hidden byte i, c, s;
#endif

inline check_recoverable() {
	i = snapshot + 1; recoverable = true;
	do
	:: i <= head -> recoverable = recoverable && present[i]; i++
	:: else -> break
	od;
	assert(recoverable)
}

/* newest sets s to the newest committed row, or to NONE. */
inline newest() {
	i = 0; s = NONE;
	do
	:: i < SLOTS -> if :: present[i] -> s = i :: else fi; i++
	:: else -> break
	od
}

/* done gives the answer to whoever waits for it, and the session back. */
inline done(x, how) {
	printf("the append of command %d at %d ends: %e\n", cargo[x], target[x], how);
	if
	:: owner[x] != NONE -> answer[owner[x]] = how
	:: else
	fi;
	stage[x] = idle; owner[x] = NONE; target[x] = 0; cargo[x] = 0
}

inline unlock(x) {
#if defined(NO_LOCK) || defined(PLAIN_INSERT)
	skip
#else
	sharers[target[x] - 1]--
#endif
}

/* picture: is the predecessor there, and the newest row? */
inline picture(x) {
#ifdef PLAIN_INSERT
	stage[x] = locked
#else
	newest();
	if
	:: s != target[x] - 1 -> done(x, conflict)
#ifdef NO_LOCK
	:: else -> stage[x] = locked
#else
	:: else -> stage[x] = pictured
#endif
	fi
#endif
}

/* lock takes the lock of the predecessor. If that was deleted, there is nothing to insert from. */
inline lock(x) {
	if
	:: present[target[x] - 1] -> sharers[target[x] - 1]++; stage[x] = locked
	:: else -> done(x, conflict)
	fi
}

/* insert takes the slot, if it is free. */
inline insert(x) {
	if
	:: present[target[x]] -> unlock(x); done(x, conflict)
	:: else -> inserter[target[x]] = x; stage[x] = inserted
	fi
}

/* commit gives locks back and makes the row a part of the history. */
inline commit(x) {
	inserter[target[x]] = NONE; unlock(x);
	present[target[x]] = true; holds[target[x]] = cargo[x];
#ifdef BLIND_HISTORY
	if :: ever[target[x]] == NONE -> ever[target[x]] = cargo[x] :: else fi;
#else
	one_row_for_ever = ever[target[x]] == NONE;
	assert(one_row_for_ever);
	ever[target[x]] = cargo[x];
#endif
	places[cargo[x] - 1]++;
	stands_once = places[cargo[x] - 1] == 1;
	assert(stands_once);
	if :: target[x] > head -> head = target[x] :: else fi;
	done(x, ok)
}

proctype Session(byte x) {
end:	do
#ifdef FINE
	:: atomic { stage[x] == sent -> picture(x) }
	/* Once nobody is deleting the predecessor. */
	:: atomic { stage[x] == pictured && !dropping[target[x] - 1] -> lock(x) }
	/* Once nobody is inserting or deleting in the slot. */
	:: atomic { stage[x] == locked && inserter[target[x]] == NONE && !dropping[target[x]] -> insert(x) }
	:: atomic { stage[x] == inserted -> commit(x) }
#else
	:: atomic { stage[x] == pictured || stage[x] == locked ->
		if :: stage[x] == pictured -> lock(x) :: else fi;
		if :: stage[x] == locked -> insert(x) :: else fi;
		if :: stage[x] == inserted -> commit(x) :: else fi }
#endif
	/* Nobody waits for it any more, the server notices, and rolls it back. */
	:: atomic { stage[x] != idle && owner[x] == NONE ->
		if
		:: stage[x] == inserted -> inserter[target[x]] = NONE; unlock(x)
		:: stage[x] == locked -> unlock(x)
		:: else
		fi;
		done(x, conflict) }
	od
}

/* ask sends the command in hand to its slot, over a session that is idle. */
inline ask(w) {
	s = 0;
	do
	:: stage[s] == idle -> break
	:: else -> s++
	od;
	c = s;
	stage[c] = sent; owner[c] = w; target[c] = slot[w]; cargo[c] = hand[w] + 1;
	phase[w] = asking; answer[w] = noanswer;
	printf("node %d asks for slot %d with command %d\n", w, target[c], cargo[c]);
#ifndef FINE
	picture(c)
#endif
}

/* leave walks away from the append under way: what it carries may be committed yet, or not. */
inline leave(w) {
	s = 0;
	do
	:: s < SESSIONS -> if :: owner[s] == w -> owner[s] = NONE :: else fi; s++
	:: else -> break
	od;
	answer[w] = noanswer
}

inline release(w) { phase[w] = unheld; hand[w] = 0; slot[w] = 0; doubted[w] = false; jumped[w] = false }

#define FIRST(w) ((w) * EACH) /* of w's commands */
#define LAST(w) ((w) * EACH + EACH - 1)
#define WAITS(w) (fate[FIRST(w)] == queued || fate[LAST(w)] == queued)
#define NEXT(w) (own[w] > applied[w] -> own[w] + 1 : applied[w] + 1)
#define MINE(w, v) (v > 0 && (v - 1) / EACH == w)

/* apply makes v, the content of the next row, the last one applied, and answers the caller who waits for it. */
inline apply(w, v) {
	s = v;
	applied[w]++;
	printf("node %d applies row %d, command %d\n", w, applied[w], s);
	equal_prefix = ever[applied[w]] == s;
	assert(equal_prefix);
	if
	:: MINE(w, s) && (fate[s - 1] == inhand || fate[s - 1] == handed) -> fate[s - 1] = acknowledged; at[s - 1] = 0
	:: else
	fi
}

/* pass_over ends a command whose row, if there is one, the installed state stands for and nobody here has seen. */
inline pass_over(x) {
#ifdef GUESS
	fate[x] = acknowledged;
	acknowledged_is_kept = places[x] > 0;
	assert(acknowledged_is_kept);
#else
	fate[x] = unknown;
#endif
	at[x] = 0
}

/* jump makes the state of the current snapshot that of w. */
inline jump(w) {
	applied[w] = snapshot;
	printf("node %d installs the snapshot at %d\n", w, snapshot);
	c = FIRST(w);
	do
	:: c > LAST(w) -> break
	:: else ->
		if
		:: fate[c] == handed && at[c] <= applied[w] -> pass_over(c)
		:: else
		fi;
		c++
	od;
	if
	:: slot[w] <= applied[w] && (phase[w] == unsure || phase[w] == lost) && doubted[w] && fate[hand[w]] == inhand ->
		pass_over(hand[w]); release(w)
	:: slot[w] <= applied[w] && phase[w] == asking -> jumped[w] = true
	:: else
	fi
}

proctype Node(byte w) {
end:	do
	/* Flusher: take the next command, for the slot after the last row seen, and send it. */
	:: atomic { phase[w] == unheld && WAITS(w) ->
		c = FIRST(w);
		do
		:: fate[c] == queued -> break
		:: else -> c++
		od;
		hand[w] = c; fate[c] = inhand; slot[w] = NEXT(w); ask(w) }
	/* Flusher: it was inserted. The row goes to the tailer, which answers. */
	:: atomic { phase[w] == asking && answer[w] == ok ->
		own[w] = slot[w]; answer[w] = noanswer;
		if
		:: fate[hand[w]] == inhand && jumped[w] -> pass_over(hand[w])
		:: fate[hand[w]] == inhand && !jumped[w] -> fate[hand[w]] = handed; at[hand[w]] = slot[w]
		:: else
		fi;
		release(w) }
	/* Flusher: it was refused. If an earlier append of it is in doubt that says nothing of the earlier one. */
	:: atomic { phase[w] == asking && answer[w] == conflict ->
		answer[w] = noanswer;
		if
		:: fate[hand[w]] == inhand && doubted[w] && jumped[w] -> pass_over(hand[w])
		:: else
		fi;
		if
		:: fate[hand[w]] == inhand -> phase[w] = lost
		:: else -> release(w)
		fi }
	/* The connection breaks, or patience: nobody knows what became of it. Nodes are alike, so whose it is makes no
	   difference: node 0's. */
	:: atomic { cuts > 0 && w == 0 && phase[w] == asking ->
		cuts--; leave(w);
		printf("node %d loses the connection\n", w);
#ifdef BLIND_RETRY
		if
		:: fate[hand[w]] == inhand -> fate[hand[w]] = queued
		:: else
		fi;
		release(w)
#else
		doubted[w] = true;
		if
		:: fate[hand[w]] == inhand && jumped[w] -> pass_over(hand[w])
		:: else
		fi;
		if
		:: fate[hand[w]] == inhand -> phase[w] = unsure
		:: else -> release(w)
		fi
#endif
		}
	/* Flusher: in doubt it asks again, for the same slot with the same bytes. */
	:: atomic { phase[w] == unsure && fate[hand[w]] == inhand && applied[w] < slot[w] -> ask(w) }
	/* Flusher: the row in the slot was seen. It is this one, or it is another's and the command goes to another slot. */
	:: atomic { (phase[w] == lost || phase[w] == unsure) && (fate[hand[w]] != inhand || applied[w] >= slot[w]) ->
		if
		:: fate[hand[w]] == inhand -> fate[hand[w]] = queued
		:: else
		fi;
		release(w) }
	/* Tailer: the next row is read, */
	:: atomic { phase[w] != down && present[applied[w] + 1] -> apply(w, holds[applied[w] + 1]) }
	/* or was handed over by the flusher. */
	:: atomic { fate[FIRST(w)] == handed && at[FIRST(w)] == applied[w] + 1 -> apply(w, FIRST(w) + 1) }
#if EACH > 1
	:: atomic { fate[LAST(w)] == handed && at[LAST(w)] == applied[w] + 1 -> apply(w, LAST(w) + 1) }
#endif
	/* Tailer: one look at bounds and snapshot shows that the next row was truncated. */
	:: atomic { phase[w] != down && !covered[w] && !present[applied[w] + 1] && snapshot > applied[w] -> covered[w] = true }
	/* Tailer: install the snapshot, whatever it is by now. */
	:: atomic { covered[w] ->
		covered[w] = false;
		if
		:: snapshot > applied[w] -> jump(w)
		:: else
		fi }
	/* The process dies, node 0 or another one. Whoever waits for an answer gets none. */
	:: atomic { crashes > 0 && w <= 1 && phase[w] != down ->
		crashes--; printf("node %d dies\n", w); leave(w); release(w); phase[w] = down;
		own[w] = 0; applied[w] = 0; covered[w] = false;
		c = FIRST(w);
		do
		:: c > LAST(w) -> break
		:: else ->
			if
			:: fate[c] == inhand || fate[c] == handed -> fate[c] = unknown; at[c] = 0
			:: else
			fi;
			c++
		od }
	/* It starts again: the snapshot, then the rows after it. */
	:: atomic { phase[w] == down ->
		applied[w] = snapshot; phase[w] = unheld;
		printf("node %d starts from the snapshot at %d\n", w, snapshot) }
	od
}

/* commit_snapshot makes the snapshot at v the current one. */
inline commit_snapshot(v) {
	atomic {
#ifdef ANY_SNAPSHOT
		snapshot = v;
#else
		if :: v > snapshot -> snapshot = v :: else fi;
#endif
		printf("the current snapshot is the one at %d\n", snapshot);
		check_recoverable() }
}

/* drop deletes the row that is next, if it is there. */
inline drop() {
	if
	:: present[row] -> dropping[row] = true; if :: from == NONE -> from = row :: else fi
	:: else
	fi;
	row++
}

inline roll_back() {
	do
	:: from < row -> dropping[from] = false; from++
	:: else -> break
	od
}

inline commit_drop() {
	do
	:: from < row -> dropping[from] = false; present[from] = false; holds[from] = 0; from++
	:: else -> break
	od;
	printf("the rows below %d are gone\n", below);
	check_recoverable()
}

/* Keeper is one snapshot cycle of some node, which may die between any two of its steps. */
proctype Keeper() {
	byte view, below, row, from = NONE;
	atomic { /* The view that is encoded. */
		if :: s = 0 :: s = 1 :: s = WRITERS - 1 fi;
		if
		:: phase[s] != down && applied[s] > snapshot -> view = applied[s]; printf("node %d encodes its view at %d\n", s, view)
		:: else -> goto stop
		fi };
	if :: skip :: goto stop fi;
#ifndef DROP_EARLY
	commit_snapshot(view);
#endif
	atomic { /* The truncation's picture. An option keeps a row for nodes that are only a little late. */
		newest();
#ifdef DROP_EARLY
		below = view + 1;
#else
		below = snapshot + 1;
#endif
#ifndef DROP_NEWEST
		if :: s < below -> below = s :: else fi;
#endif
		if :: skip :: below > 1 -> below-- fi;
		printf("a truncation of the rows below %d begins\n", below) };
#ifdef FINE
	do /* It locks and deletes row by row, in ascending order, once nobody holds the lock. */
	:: atomic { row < below && sharers[row] == 0 && !dropping[row] -> drop() }
	:: atomic { row == below -> commit_drop(); break }
	:: atomic { from != NONE -> roll_back(); goto stop } /* The process dies, and the server notices. */
	od;
#else
	if :: skip :: goto stop fi;
	atomic {
		do
		:: row < below -> drop()
		:: else -> break
		od;
		commit_drop() };
#endif
#ifdef DROP_EARLY
	if :: skip :: goto stop fi;
	commit_snapshot(view);
#endif
stop:	keepers--
}

/* Monitor sees what is left when nothing more can happen. */
proctype Monitor() {
	atomic { timeout ->
	all_reach_the_head = keepers == 0;
	i = 0;
	do
	:: i < WRITERS -> all_reach_the_head = all_reach_the_head && applied[i] == head && phase[i] == unheld; i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < COMMANDS -> all_reach_the_head = all_reach_the_head && (fate[i] == acknowledged || fate[i] == unknown); i++
	:: else -> break
	od;
#ifndef BLIND_HISTORY
	assert(all_reach_the_head);
#endif
	skip }
}

init {
	atomic {
		present[0] = true;
		i = 0;
		do
		:: i < SLOTS -> inserter[i] = NONE; ever[i] = NONE; i++
		:: else -> break
		od;
		ever[0] = 0;
		i = 0;
		do
		:: i < SESSIONS -> stage[i] = idle; owner[i] = NONE; run Session(i); i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < WRITERS -> phase[i] = unheld; answer[i] = noanswer; run Node(i); i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < COMMANDS -> fate[i] = queued; i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < KEEPERS -> run Keeper(); i++
		:: else -> break
		od;
		run Monitor()
	}
}
