/* The two files PREFIX.bin and PREFIX.idx as one thing: whoever opens them finds two that belong together, also while a
 * new pair takes their place and after a kill at any instant of that; and one build at a time writes a prefix.
 *
 * A build writes PREFIX.bin.tmp and PREFIX.idx.tmp under the lock of PREFIX.lock. When both are on the disk,
 * PREFIX.idx.tmp becomes PREFIX.idx.new, which says that the new pair is whole; PREFIX.idx is removed; then
 * PREFIX.bin.tmp and PREFIX.idx.new get their names. As long as PREFIX.idx is there, PREFIX.bin belongs to it; where it
 * is missing and PREFIX.idx.new is there, that belongs to PREFIX.bin.tmp, or to PREFIX.bin once the former has got that
 * name.
 */
#ifndef PENSTOCK_DATA_TOKENS_PAIR_H
#define PENSTOCK_DATA_TOKENS_PAIR_H

struct tokens_pair {
  char *prefix;
  int lock; /* descriptor, -1: not locked */
};

/* ---- of a build ---- */

/* Takes the lock of a prefix and clears what a killed build left: a pair that was whole gets its names, the rest may be
 * written over. STATUS_MISTAKE when another build has the lock or no file can be made there. tokens_pair_unlock ends
 * it, also after a failure. */
int tokens_pair_lock(const char *prefix, struct tokens_pair *pair);

/* Puts the pair PREFIX.bin.tmp, PREFIX.idx.tmp, both written and synced, into place. STATUS_FAILED names the file. */
int tokens_pair_replace(const struct tokens_pair *pair);

void tokens_pair_unlock(struct tokens_pair *pair);

/* ---- of readers ---- */

/* Opens index (0) and tokens (1) of one pair for reading. A file that cannot be opened has descriptor -1 and errno in
 * reasons[]. */
void tokens_pair_open(const char *prefix, int descriptors[2], int reasons[2]);

#endif
