//! Regions ordered by their first byte, each knowing the last byte below it: a treap.

use super::access::Users;
use crate::arena::{Arena, NONE};
use crate::view::Region;
use std::ops::{Index, IndexMut};

#[derive(Debug)]
pub(crate) struct TreeNode {
    pub(crate) region: Region,
    pub(crate) users: Users,
    /// The map whose tree this is.
    pub(crate) map: u32,
    left: u32,
    right: u32,
    /// Parents have higher ones.
    weight: u32,
    /// The last byte of this node and those below.
    last: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Arena<TreeNode>,
    count: u64,
    /// Number of nodes visited so far.
    pub(crate) visits: u64,
}

impl Tree {
    #[inline]
    pub(crate) fn add(&mut self, region: &Region, map: u32) -> u32 {
        self.count += 1;
        let weight = scattered(self.count);
        self.nodes.add(TreeNode {
            region: region.clone(),
            users: Users::NOBODY,
            map,
            left: NONE,
            right: NONE,
            weight,
            last: region.end,
        })
    }

    /// Appends the nodes below `root` that share a byte with `region`.
    pub(crate) fn meeting(&mut self, root: u32, region: &Region, met: &mut Vec<u32>) {
        if root == NONE {
            return;
        }
        self.visits += 1;
        let node = &self.nodes[root];
        if node.last <= region.start {
            return;
        }
        let (left, right) = (node.left, node.right);
        let (is_before, is_met) = (node.region.start < region.end, node.region.overlaps(region));
        self.meeting(left, region, met);
        if is_met {
            met.push(root);
        }
        if is_before {
            self.meeting(right, region, met);
        }
    }

    /// The root after `node` was put below `root`.
    pub(crate) fn insert(&mut self, root: u32, node: u32) -> u32 {
        self.visits += 1;
        if root == NONE {
            return node;
        }
        if self.nodes[node].weight > self.nodes[root].weight {
            let (left, right) = self.split(root, node);
            (self.nodes[node].left, self.nodes[node].right) = (left, right);
            self.update(node);
            return node;
        }
        if self.is_before(node, root) {
            self.nodes[root].left = self.insert(self.nodes[root].left, node);
        } else {
            self.nodes[root].right = self.insert(self.nodes[root].right, node);
        }
        self.update(root);
        root
    }

    /// The root after `node` was taken from below `root`; its number is free again.
    pub(crate) fn remove(&mut self, root: u32, node: u32) -> u32 {
        self.visits += 1;
        if root == node {
            let merged = self.merge(self.nodes[node].left, self.nodes[node].right);
            self.nodes.remove(node);
            return merged;
        }
        assert_ne!(root, NONE, "TM-4: a region stands in the tree of its map");
        if self.is_before(node, root) {
            self.nodes[root].left = self.remove(self.nodes[root].left, node);
        } else {
            self.nodes[root].right = self.remove(self.nodes[root].right, node);
        }
        self.update(root);
        root
    }

    /// Splits the tree into the nodes before `node` and the nodes after it.
    fn split(&mut self, root: u32, node: u32) -> (u32, u32) {
        self.visits += 1;
        if root == NONE {
            return (NONE, NONE);
        }
        if self.is_before(root, node) {
            let (left, right) = self.split(self.nodes[root].right, node);
            self.nodes[root].right = left;
            self.update(root);
            (root, right)
        } else {
            let (left, right) = self.split(self.nodes[root].left, node);
            self.nodes[root].left = right;
            self.update(root);
            (left, root)
        }
    }

    /// One tree of two, of which `left` is before `right`.
    fn merge(&mut self, left: u32, right: u32) -> u32 {
        self.visits += 1;
        if left == NONE || right == NONE {
            return if left == NONE { right } else { left };
        }
        if self.nodes[left].weight > self.nodes[right].weight {
            self.nodes[left].right = self.merge(self.nodes[left].right, right);
            self.update(left);
            left
        } else {
            self.nodes[right].left = self.merge(left, self.nodes[right].left);
            self.update(right);
            right
        }
    }

    fn is_before(&self, a: u32, b: u32) -> bool {
        (self.nodes[a].region.start, a) < (self.nodes[b].region.start, b)
    }

    fn update(&mut self, root: u32) {
        let below = |child: u32| if child == NONE { 0 } else { self.nodes[child].last };
        let node = &self.nodes[root];
        let last = node.region.end.max(below(node.left)).max(below(node.right));
        self.nodes[root].last = last;
    }

    pub(crate) fn live(&self) -> usize {
        self.nodes.live()
    }
}

impl Index<u32> for Tree {
    type Output = TreeNode;

    #[inline]
    fn index(&self, at: u32) -> &TreeNode {
        &self.nodes[at]
    }
}

impl IndexMut<u32> for Tree {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut TreeNode {
        &mut self.nodes[at]
    }
}

/// A number without pattern, the same for the same `count`.
fn scattered(count: u64) -> u32 {
    let mut z = count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    u32::try_from((z ^ (z >> 27)) >> 32).unwrap_or_default()
}
